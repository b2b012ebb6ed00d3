package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"agentd/bench/result"

	"pgregory.net/rapid"
)

func pageOf(t *testing.T, runs []*result.Full) string {
	t.Helper()
	var b strings.Builder
	if err := WriteHTML(&b, runs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestThePageNeedsNothingElse(t *testing.T) {
	text := pageOf(t, repeated())
	if *pageOut != "" {
		if err := os.WriteFile(*pageOut, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, never := range []string{"<script", "<link", "<img", "src=", "url(", "@import", "http:", "https:", "ZgotmplZ", "NaN", "Inf"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
	for _, want := range []string{
		"<title>agentbench: agentd, llama-server</title>", "agentd to llama-server at 16 agents", "default-src &#39;none&#39;",
		"prefers-color-scheme: dark", "Throughput against latency", "Batch width over time", "Cache hits over time",
		"Prompt tokens computed by turn", "Latency, cumulative", "Failed requests: timeout", "qwen3 0.6B Q8_0",
	} {
		if !strings.Contains(text, strings.ReplaceAll(want, "&#39;", "'")) {
			t.Errorf("the page has no %q", want)
		}
	}
	if again := pageOf(t, repeated()); again != text {
		t.Error("the same results give another page")
	}
}

// svgs are the plots of a page, each a whole XML document.
func svgs(t *testing.T, text string) []string {
	t.Helper()
	list := regexp.MustCompile(`(?s)<svg .*?</svg>`).FindAllString(text, -1)
	for _, s := range list {
		d := xml.NewDecoder(strings.NewReader(s))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in\n%s", err, s)
			}
		}
	}
	return list
}

func TestEveryPlotHasATitleAndADescription(t *testing.T) {
	list := svgs(t, pageOf(t, repeated()))
	if len(list) != 6 {
		t.Fatalf("%d plots, want 6", len(list))
	}
	for _, s := range list {
		for _, want := range []string{`role="img"`, "<title id=", "<desc id=", `class="curve`} {
			if !strings.Contains(s, want) {
				t.Errorf("no %s in\n%s", want, s)
			}
		}
	}
}

func TestAPlotWithoutDataSaysWhy(t *testing.T) {
	run := simulated("llama-server", 4, 900, 1, false)
	for i := range run.Samples {
		run.Samples[i].CacheHits = -1
	}
	for i := range run.Records {
		run.Records[i].ComputedTokens = -1
	}
	text := pageOf(t, []*result.Full{run})
	for _, want := range []string{
		"No server told the width of its batches.", "No server told what it found in its prefix cache.",
		"No server told how many prompt tokens it computed.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := len(svgs(t, text)); n != 3 {
		t.Errorf("%d plots, want 3", n)
	}
	failed := simulated("x", 4, 900, 1, false)
	failed.Records, failed.Samples, failed.Summary = nil, nil, result.Summarize(result.Input{})
	if n := len(svgs(t, pageOf(t, []*result.Full{failed}))); n != 0 {
		t.Errorf("%d plots of nothing", n)
	}
}

func TestNamesAreTextOnThePage(t *testing.T) {
	run := simulated(`<script>alert("x")</script>`, 4, 900, 1, true)
	run.Run.Server["<b>"] = "</details><script>"
	text := pageOf(t, []*result.Full{run})
	if strings.Contains(text, "<script") || strings.Contains(text, "<b></dt>") {
		t.Error("a name became markup")
	}
	svgs(t, text)
}

func TestAxesAreRoundAndHoldTheirData(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low, high := 0.0, rapid.Float64Range(0, 1e9).Draw(t, "high")
		whole := rapid.Bool().Draw(t, "whole") // all others begin at 0
		if whole {
			low = float64(rapid.IntRange(0, 5000).Draw(t, "low"))
			high = low + float64(rapid.IntRange(0, 5000).Draw(t, "range"))
		}
		from, to, step := axis(low, high, whole)
		if from > low || to < high-1e-6*step || !(step > 0) || !(to > from) {
			t.Fatalf("axis from %g to %g by %g for %g to %g", from, to, step, low, high)
		}
		if n := (to - from) / step; n > 2*ticksWanted+1e-6 || math.Abs(n-math.Round(n)) > 1e-6 {
			t.Fatalf("%g steps", n)
		}
		if whole && step != math.Trunc(step) {
			t.Fatalf("a step of %g between whole numbers", step)
		}
	})
}

func TestTheMedianRepeatIsShownOverTime(t *testing.T) {
	var g group
	for _, rate := range []float64{3, 1, 2} {
		run := simulated("a", 4, 900, 1, true)
		run.Summary.DecisionRate = result.Known(rate)
		g.runs = append(g.runs, run)
	}
	if got := g.median().Summary.DecisionRate; got != result.Known(2) {
		t.Errorf("got the repeat with %v", got)
	}
}

func TestLongTimesAreInSeconds(t *testing.T) {
	c := &chart{XLabel: "E2EL, ms", YLabel: "% of requests", series: []series{{points: []point{{20_000, 50}, {5000, 20_000}}}}}
	c.timeUnit()
	if p := c.series[0].points; c.XLabel != "E2EL, s" || p[0].x != 20 || p[1].x != 5 || p[1].y != 20_000 {
		t.Errorf("%s, %v", c.XLabel, p)
	}
	c = &chart{XLabel: "turn", YLabel: "E2EL, ms", series: []series{{points: []point{{1, 9999}}}}}
	c.timeUnit()
	if c.YLabel != "E2EL, ms" || c.series[0].points[0].y != 9999 {
		t.Errorf("%s, %v", c.YLabel, c.series[0].points)
	}
}
