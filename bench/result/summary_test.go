package result

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
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

func TestASpreadWithAnUnknownRepeatIsUnknown(t *testing.T) {
	if got, want := SpreadOf([]Value{Known(3), Known(1), Known(2)}), (Spread{Known(2), Known(1), Known(3), 3}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := SpreadOf([]Value{Known(3), {}}), (Spread{N: 1}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestASummaryCountsAndMeasures(t *testing.T) {
	warm := answered(0)
	warm.Warmup = true
	half := answered(2)
	half.Failures, half.Distinct, half.Gaps = map[string]int{"truncated": 1}, 1, []float64{10, 30, -1}
	s := Summarize(Input{
		Records: []Record{warm, answered(1), half, failed(3, "timeout")},
		Samples: []Sample{{CellsUsed: 10}, {CellsUsed: 300}, {CellsUsed: -1}, {CellsUsed: 20}},
		Counts: Counts{
			Prefilled: Known(160), Generated: Known(70), Steps: Known(20), Rows: Known(60), Evicted: Known(1),
			Phases: map[string]float64{"decode": 2},
		},
		Ideal: Known(120),
		SLO:   SLO{TTFT: 150 * time.Millisecond, TPOT: 90 * time.Millisecond, E2EL: time.Second},
	})
	want := Summary{
		Span: Known(2.5), Requests: 3, Warmup: 1, Candidates: 6, Decisions: 3,
		Failures: map[string]int{"timeout": 1}, CandidateFailures: map[string]int{"truncated": 1},
		DecisionRate: Known(1.2), RequestRate: Known(0.8), OutputRate: Known(17.6),
		Goodput: Known(0.4), GoodShare: Known(1.0 / 3),
		TTFT:  Distribution{2, Known(100), Known(100), Known(100), Known(100), Known(100)},
		TPOT:  Distribution{2, Known(90), Known(90), Known(90), Known(90), Known(90)},
		ITL:   Distribution{2, Known(20), Known(28), Known(29.8), Known(20), Known(30)},
		E2EL:  Distribution{2, Known(1000), Known(1000), Known(1000), Known(1000), Known(1000)},
		Queue: Distribution{2, Known(20), Known(20), Known(20), Known(20), Known(20)},

		PromptSent: Known(1500), PromptComputed: Known(150), PromptIdeal: Known(120),
		KVPeak: Known(300), Width: Known(3), Distinct: Known(1.5), Wasted: Known(4), Evicted: Known(1),
		Phases: map[string]float64{"decode": 2},
	}
	near := cmp.Comparer(func(a, b Value) bool { return a.Known == b.Known && math.Abs(a.X-b.X) < 1e-9 })
	if diff := cmp.Diff(want, s, near); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestARequestThatWasLeftIsNobodysFailure(t *testing.T) {
	in := Input{Records: []Record{answered(0), failed(1, Left), failed(2, "timeout")}, SLO: SLO{E2EL: time.Second}}
	s := Summarize(in)
	if s.Requests != 3 || s.Left != 1 || s.GoodShare != Known(0.5) || !maps.Equal(s.Failures, map[string]int{"timeout": 1}) {
		t.Errorf("%d of %d left, %v failed, %v good", s.Left, s.Requests, s.Failures, s.GoodShare)
	}
	if m, _ := MetricNamed("failed_requests"); m.Of(&s) != Known(1) {
		t.Errorf("%v failed", m.Of(&s))
	}
	if s := Summarize(Input{Records: []Record{failed(0, Left)}, SLO: in.SLO}); s.GoodShare.Known {
		t.Errorf("of no request that was waited for, %v are good", s.GoodShare)
	}
}

func TestUnknownStaysUnknown(t *testing.T) {
	r := answered(0)
	r.Queue, r.TTFT, r.OutputTokens, r.PromptTokens, r.ComputedTokens = -1, -1, -1, -1, -1
	s := Summarize(Input{Records: []Record{r, answered(1)}, Samples: []Sample{{CellsUsed: -1}}, SLO: SLO{TTFT: time.Second}})
	for _, name := range []string{
		"output_tok_s", "goodput_s", "goodput_share", "itl_p50", "prompt_tok_sent", "prompt_tok_computed",
		"prompt_tok_ideal", "computed_to_ideal", "kv_cells_peak", "batch_width", "wasted_tok", "evicted",
	} {
		m, ok := MetricNamed(name)
		if !ok {
			t.Fatalf("no metric %s", name)
		}
		if got := m.Of(&s); got.Known {
			t.Errorf("%s: got %g, want unknown", name, got.X)
		}
	}
	if s.TTFT.N != 1 || s.TPOT.N != 1 { // of the request that knows
		t.Errorf("TTFT of %d requests, TPOT of %d, want 1 and 1", s.TTFT.N, s.TPOT.N)
	}
	if empty := Summarize(Input{}); empty.Span.Known || empty.DecisionRate.Known {
		t.Errorf("of nothing: %+v", empty)
	}
}

func TestRatesOfARunThatOnlyFailedAreZero(t *testing.T) {
	s := Summarize(Input{Records: []Record{failed(0, "refused")}, SLO: SLO{E2EL: time.Second}})
	for _, v := range []Value{s.DecisionRate, s.RequestRate, s.OutputRate, s.Goodput} {
		if v != Known(0) {
			t.Errorf("got %v, want 0", v)
		}
	}
}

func TestWhatIsGeneratedOnceForAllCountsOnce(t *testing.T) {
	in := Input{Records: []Record{answered(0)}, Counts: Counts{Generated: Known(30)}}
	each := Summarize(in)
	in.Records[0].Copies, in.Records[0].Distinct = true, 1
	once := Summarize(in)
	if each.Wasted != Known(8) || once.Wasted != Known(19) || each.OutputRate != Known(22) || once.OutputRate != Known(11) {
		t.Errorf("wasted %v, once %v; output rate %v, once %v", each.Wasted, once.Wasted, each.OutputRate, once.OutputRate)
	}
	if once.TPOT != each.TPOT || once.DecisionRate != each.DecisionRate {
		t.Errorf("a candidate has its tokens and is a decision, copied or not: %+v, %+v", once.TPOT, once.DecisionRate)
	}
	in.Records[0].OutputTokens = -1
	if s := Summarize(in); s.OutputRate.Known || s.Wasted.Known {
		t.Errorf("of an unknown number: %v, %v", s.OutputRate, s.Wasted)
	}
	in.Records[0].Copies, in.Records[0].OutputTokens = false, 22
	in.Counts.Generated = Known(21) // fewer than received: the server counts something else
	if s := Summarize(in); s.Wasted.Known {
		t.Errorf("got %g, want unknown", s.Wasted.X)
	}
}

func TestComputedPromptTokensComeFromTheCountersWhereAnswersDoNotSay(t *testing.T) {
	r := answered(0)
	r.ComputedTokens = -1
	s := Summarize(Input{Records: []Record{r}, Counts: Counts{Prefilled: Known(70)}})
	if s.PromptComputed != Known(70) {
		t.Errorf("got %v, want 70", s.PromptComputed)
	}
}

func TestAServiceLevelObjective(t *testing.T) {
	for _, c := range []struct {
		text string
		want SLO
		err  string
	}{
		{"", SLO{}, ""},
		{"ttft=200ms,tpot=50ms,e2el=2s", SLO{200 * time.Millisecond, 50 * time.Millisecond, 2 * time.Second}, ""},
		{" e2el=1m ", SLO{E2EL: time.Minute}, ""},
		{"ttft=200", SLO{}, `ttft: got "200", want a time above 0 such as 200ms or 2s`},
		{"ttft=0s", SLO{}, `ttft: got "0s", want a time above 0 such as 200ms or 2s`},
		{"ttft=1s,ttft=2s", SLO{}, "ttft is there twice; remove one"},
		{"itl=2s", SLO{}, `got "itl=2s", want ttft=TIME, tpot=TIME or e2el=TIME, separated by commas`},
		{"ttft", SLO{}, `got "ttft", want ttft=TIME, tpot=TIME or e2el=TIME, separated by commas`},
	} {
		got, err := ParseSLO(c.text)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%q: got %v, %v, want %v, %q", c.text, got, err, c.want, c.err)
		}
	}
}

func TestWhenARequestMeetsTheObjective(t *testing.T) {
	one := answered(0)
	one.OutputTokens, one.TTFT = 2, 1000
	unknown := answered(0)
	unknown.TTFT = -1
	partly := answered(0)
	partly.Failures = map[string]int{"truncated": 1}
	for _, c := range []struct {
		name string
		r    Record
		slo  string
		want Value // requests within it
	}{
		{"at the bounds", answered(0), "ttft=100ms,tpot=90ms,e2el=1s", Known(1)},
		{"first token late", answered(0), "ttft=99ms", Known(0)},
		{"tokens slow", answered(0), "tpot=89ms", Known(0)},
		{"late", answered(0), "e2el=999ms", Known(0)},
		{"one token has no TPOT", one, "tpot=1ms,ttft=1s", Known(1)},
		{"unknown where it is bounded", unknown, "ttft=1s", Value{}},
		{"unknown where it is not", unknown, "e2el=1s", Known(1)},
		{"unknown, but another bound is missed", unknown, "ttft=1s,e2el=999ms", Known(0)},
		{"a candidate failed", partly, "e2el=1s", Known(0)},
		{"failed", failed(0, "timeout"), "e2el=1s", Known(0)},
	} {
		slo := must[SLO](t)(ParseSLO(c.slo))
		if s := Summarize(Input{Records: []Record{c.r}, SLO: slo}); s.GoodShare != c.want {
			t.Errorf("%s: got %v, want %v", c.name, s.GoodShare, c.want)
		}
	}
}
