package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"

	"agentd/bench/result"
)

func TestTwoServersOfOneLoadGetRatios(t *testing.T) {
	var b strings.Builder
	if err := WriteTable(&b, repeated(16)); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", b.String())
}

func TestEachLoadHasItsOwnColumn(t *testing.T) {
	var b strings.Builder
	if err := WriteTable(&b, repeated(4, 8)); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "agents, 3×"); n != 4 || strings.Contains(b.String(), "ratio") {
		t.Errorf("%d columns in\n%s", n, b.String())
	}
}

func TestTableNamesUnfairComparisons(t *testing.T) {
	a, b := simulated("a", 4, 900, 1, true), simulated("b", 4, 900, 2, false)
	a.Interrupted, b.Trace.Hash = "signal", "other"
	var out strings.Builder
	if err := WriteTable(&out, []*result.Run{a, b}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NOT THE SAME RUN: a run of a was interrupted: signal", "NOT THE SAME RUN: trace: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	for _, c := range []struct {
		v    result.Value
		want string
	}{
		{result.Value{}, "-"},
		{result.Known(0), "0"},
		{result.Known(0.012345), "0.0123"},
		{result.Known(1.234), "1.23"},
		{result.Known(12.34), "12.3"},
		{result.Known(123.4), "123"},
		{result.Known(12345678.9), "12345679"},
		{result.Known(96), "96"},
	} {
		if got := number(c.v); got != c.want {
			t.Errorf("%v: got %s, want %s", c.v, got, c.want)
		}
	}
}

func TestPlotsAreOnePageOfSVG(t *testing.T) {
	for name, runs := range map[string][]*result.Run{"loads": repeated(4, 8, 16), "one run": {simulated("a", 4, 900, 1, false)}, "nothing measured": {{Name: "a"}}} {
		var b bytes.Buffer
		if err := WritePlots(&b, runs); err != nil {
			t.Fatal(name, err)
		}
		if *plotsOut != "" && name == "loads" {
			if err := os.WriteFile(*plotsOut, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{"Latency, cumulative", "Latency against throughput", "decisions/s"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q", name, want)
			}
		}
		if names := strings.Count(b.String(), ">llama-server, 16 agents<"); name == "loads" && names != 1 { // of the cumulative latency
			t.Errorf("llama-server is in %d legends", names)
		}
		for d := xml.NewDecoder(&b); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(name, err)
			}
		}
	}
}

func TestAxesHaveSeveralLabels(t *testing.T) {
	for _, to := range []float64{0.003, 0.99, 1, 1.9, 2, 3.99, 7, 10, 83, 512, 1e6} {
		list := ticks(0, to)
		last := list[len(list)-1].Value
		if len(list) < 5 || len(list) > 11 || list[0].Value != 0 || last > to || last < to*3/4 {
			t.Errorf("0 to %g: %v", to, list)
		}
	}
}

func TestLegendIsAboveCurves(t *testing.T) {
	p := chart("", "", "")
	line := series{"a", plotter.XYs{{X: 0, Y: 50}, {X: 1, Y: 100}}}
	if err := add(p, []series{line, line, {name: "nothing measured"}}, false); err != nil {
		t.Fatal(err)
	}
	if free := 1 - 100/p.Y.Max; math.Abs(free-2*nameHeight) > 1e-9 {
		t.Errorf("%g of the plot is above the curves, want %g", free, 2*nameHeight)
	}
}
