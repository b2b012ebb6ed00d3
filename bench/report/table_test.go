package report

import (
	"strings"
	"testing"
	"unicode/utf8"

	"agentd/bench/result"
)

func TestATableHasAColumnForEachArmInAHundredColumns(t *testing.T) {
	var b strings.Builder
	if err := WriteTable(&b, files(repeated())); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", b.String())
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > tableWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestATableSaysWhatWasInterruptedAndWhatDiffers(t *testing.T) {
	a, b := simulated("a", 4, 900, 1, true), simulated("b", 4, 900, 2, false)
	a.Interrupted, b.Trace.Hash = "signal", strings.Repeat("f", 64)
	var out strings.Builder
	if err := WriteTable(&out, files([]*result.Full{a, b})); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"INTERRUPTED (signal): a run of a shows", "The runs had different traces"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestNothingIsNoTable(t *testing.T) {
	if err := WriteTable(&strings.Builder{}, nil); err == nil {
		t.Error("no error")
	}
	if err := WriteHTML(&strings.Builder{}, nil); err == nil {
		t.Error("no error")
	}
}

func TestAComparisonShowsRatiosAndMissedRules(t *testing.T) {
	var a, b []*result.File
	for seed := range uint64(3) {
		a = append(a, simulated("agentd", 16, 900, seed, true).File)
		b = append(b, simulated("llama-server", 16, 1700, seed, false).File)
	}
	rules, err := result.ParseRules("ratio=1.7,ttft_p50=3,queue_p50=1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := result.Compare(a, b, rules, false)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := WriteComparison(&out, c); err != nil {
		t.Fatal(err)
	}
	golden(t, "comparison.txt", out.String())
}

func TestNumbersHaveThreeDigitsAndUnknownOnesADash(t *testing.T) {
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
