package result

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/bench/target"
)

// plainPercentile is the definition written the other way round: the place among
// the intervals between neighbours, found by counting.
func plainPercentile(values []float64, p float64) float64 {
	list := slices.Sorted(slices.Values(values))
	for i := 1; i < len(list); i++ {
		low, high := 100*float64(i-1)/float64(len(list)-1), 100*float64(i)/float64(len(list)-1)
		if p <= high {
			return list[i-1] + (list[i]-list[i-1])*(p-low)/(high-low)
		}
	}
	return list[len(list)-1]
}

func TestPercentilesInterpolateBetweenNeighbours(t *testing.T) {
	for _, c := range []struct {
		values []float64
		p      float64
		want   Value
	}{
		{nil, 50, Value{}},
		{[]float64{7}, 99, Known(7)},
		{[]float64{1, 2}, 50, Known(1.5)},
		{[]float64{1, 2, 3, 4, 5}, 90, Known(4.6)}, // numpy.percentile gives the same
		{[]float64{1, 2, 3, 4, 5}, 100, Known(5)},
	} {
		got := Percentile(c.values, c.p)
		if got.Known != c.want.Known || math.Abs(got.X-c.want.X) > 1e-12 {
			t.Errorf("p%g of %v: got %v, want %v", c.p, c.values, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 2, 200).Draw(t, "values")
		p := rapid.Float64Range(0, 100).Draw(t, "p")
		want := plainPercentile(values, p)
		slices.Sort(values)
		if got := Percentile(values, p); math.Abs(got.X-want) > 1e-6*(1+want) {
			t.Fatalf("got %g, want %g", got.X, want)
		}
	})
}

func TestSpreadWithAnUnknownRepeatIsUnknown(t *testing.T) {
	if got, want := SpreadOf([]Value{Known(3), Known(1), Known(2)}), (Spread{Known(2), Known(1), Known(3)}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := SpreadOf([]Value{Known(3), {}}), (Spread{}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSummaryCountsAndMeasures(t *testing.T) {
	half := answered(2)
	half.Failures = map[string]int{"truncated": 1}
	samples := counts(target.Counters{Prefilled: 160, Steps: 20, Rows: 60, CellsUsed: 20, Phases: map[string]float64{"decode": 2}, CPU: 7.5, Memory: 4e6})
	samples[0].CellsUsed, samples[0].CPU, samples[0].Memory = 300, 5, 5e6
	s := Summarize([]Record{answered(1), half, failed(3, "refused"), failed(2, Cancelled)}, samples, Known(120), 1000)
	same := func(x float64) Distribution { return Distribution{2, Known(x), Known(x), Known(x)} }
	want := Summary{
		Span: Known(2.5), Requests: 4, Candidates: 8, Decisions: 3, Cancelled: 1,
		Failures: map[string]int{"refused": 1}, CandidateFailures: map[string]int{"truncated": 1},
		DecisionRate: Known(1.2), RequestRate: Known(0.8), OutputRate: Known(17.6), Goodput: Known(0.4),
		TTFT: same(100), TPOT: same(90), E2EL: same(1000),
		PromptSent: Known(1000), PromptComputed: Known(100), PromptUnique: Known(120),
		Steps: Known(20), KVPeak: Known(300), Width: Known(3),
		Phases: map[string]float64{"decode": 2}, CPU: Known(2.5), Memory: Known(5e6),
	}
	near := cmp.Comparer(func(a, b Value) bool { return a.Known == b.Known && math.Abs(a.X-b.X) < 1e-9 })
	if diff := cmp.Diff(want, s, near); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestUnknownFiguresStayUnknown(t *testing.T) {
	r := answered(0)
	r.TTFT, r.OutputTokens, r.PromptTokens, r.ComputedTokens = -1, -1, -1, -1
	unknown := counts(target.Counters{Prefilled: -1, Steps: -1, Rows: -1, CellsUsed: -1})
	unknown[0].CellsUsed = -1
	s := Summarize([]Record{r, answered(1)}, unknown, Value{}, 0)
	for _, name := range []string{
		"output_tok_s", "goodput_s", "prompt_tok_sent", "prompt_tok_computed", "prompt_tok_unique", "computed_to_unique", "kv_cells_peak", "batch_width", MemoryPeak, CPUSeconds,
	} {
		if got := MetricNamed(name).Of(&s); got.Known {
			t.Errorf("%s: got %g, want unknown", name, got.X)
		}
	}
	if s.TTFT.N != 1 || s.TPOT.N != 1 {
		t.Errorf("TTFT of %d requests, TPOT of %d, want 1 and 1", s.TTFT.N, s.TPOT.N)
	}
	if empty := Summarize(nil, nil, Value{}, 0); empty.Span.Known || empty.DecisionRate.Known {
		t.Errorf("of nothing: %+v", empty)
	}
}

func TestCopiesOfOneGenerationCountTheirTokensOnce(t *testing.T) {
	r := answered(0)
	each := Summarize([]Record{r}, nil, Value{}, 0)
	r.Copies = true
	once := Summarize([]Record{r}, nil, Value{}, 0)
	if each.OutputRate != Known(22) || once.OutputRate != Known(11) {
		t.Errorf("output rate %v, once %v", each.OutputRate, once.OutputRate)
	}
	if once.TPOT != each.TPOT || once.DecisionRate != each.DecisionRate {
		t.Errorf("copies change %+v, %+v", once.TPOT, once.DecisionRate)
	}
}

func TestCountersTellComputedTokensIfAnswersDoNot(t *testing.T) {
	r := answered(0)
	r.ComputedTokens = -1
	if s := Summarize([]Record{r}, counts(target.Counters{Prefilled: 70}), Value{}, 0); s.PromptComputed != Known(70) {
		t.Errorf("got %v, want 70", s.PromptComputed)
	}
}

func TestGoodputNeedsAllDecisionsWithinTheBound(t *testing.T) {
	partly := answered(0)
	partly.Failures = map[string]int{"truncated": 1}
	for name, test := range map[string]struct {
		r     Record
		bound float64
		want  Value
	}{
		"at the bound":            {answered(0), 1000, Known(1)},
		"late":                    {answered(0), 999, Known(0)},
		"a candidate failed":      {partly, 1000, Known(0)},
		"the request failed":      {failed(0, "refused"), 1000, Known(0)},
		"unknown without a bound": {answered(0), 0, Value{}},
	} {
		if s := Summarize([]Record{test.r}, nil, Value{}, test.bound); s.Goodput != test.want {
			t.Errorf("%s: got %v, want %v", name, s.Goodput, test.want)
		}
	}
}
