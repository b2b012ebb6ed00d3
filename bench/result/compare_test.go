package result

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// with is a run whose metrics were set.
func with(t *testing.T, name string, set func(*Summary)) *File {
	t.Helper()
	f := run(t, name)
	set(&f.Summary)
	return f
}

func TestRulesAreRead(t *testing.T) {
	rules := must[[]Rule](t)(ParseRules("ratio=1.7, ttft_p50=0.9"))
	if len(rules) != 2 || rules[0].Metric.Name != "decisions_s" || rules[0].Least != 1.7 || rules[1].Metric.Name != "ttft_p50" {
		t.Errorf("got %+v", rules)
	}
	for _, c := range []struct{ text, want string }{
		{"", "want METRIC=RATIO"},
		{"ratio", "want METRIC=RATIO"},
		{"speed=2", `got the metric "speed", want one of: ratio, decisions_s`},
		{"requests=2", "want one of"}, // it has no better direction
		{"ratio=0", "want a ratio above 0"},
		{"ratio=NaN", "want a ratio above 0"},
		{"ratio=1,decisions_s=2", "decisions_s is there twice"},
	} {
		if _, err := ParseRules(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want an error with %q", c.text, err, c.want)
		}
	}
}

func TestARatioSaysHowMuchBetterTheFirstIs(t *testing.T) {
	a := with(t, "a", func(s *Summary) {
		s.DecisionRate, s.TTFT.P50, s.E2EL.P50 = Known(20), Known(100), Known(0)
		s.Wasted, s.ITL.P50 = Known(0), Value{}
	})
	b := with(t, "b", func(s *Summary) {
		s.DecisionRate, s.TTFT.P50, s.E2EL.P50 = Known(10), Known(150), Known(30)
		s.Wasted, s.ITL.P50 = Known(0), Known(5)
	})
	for _, c := range []struct {
		rule   string
		ratio  Value
		missed string
	}{
		{"ratio=2", Known(2), ""},
		{"ratio=2.1", Known(2), "decisions_s: the ratio is 2.000, wanted at least 2.1"},
		{"ttft_p50=1.5", Known(1.5), ""},
		{"ttft_p50=1.6", Known(1.5), "ttft_p50: the ratio is 1.500, wanted at least 1.6"},
		{"e2el_p50=5", Value{}, ""}, // nothing is better than 0
		{"wasted_tok=1", Value{}, ""},
		{"wasted_tok=1.01", Value{}, "wasted_tok: the ratio is of a division by 0, wanted at least 1.01"},
		{"itl_p50=0.1", Value{}, "itl_p50: the ratio is unknown, wanted at least 0.1"},
	} {
		got, err := Compare([]*File{a}, []*File{b}, must[[]Rule](t)(ParseRules(c.rule)), false)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(got.Rows, func(r Row) bool { return r.Rule != nil })
		if got.Rows[i].Ratio != c.ratio || strings.Join(got.Missed(), "") != c.missed {
			t.Errorf("%s: got %v, %q, want %v, %q", c.rule, got.Rows[i].Ratio, got.Missed(), c.ratio, c.missed)
		}
	}
}

func TestRepeatsAreComparedByTheirMedians(t *testing.T) {
	rate := func(name string, x float64) *File {
		return with(t, name, func(s *Summary) { s.DecisionRate = Known(x) })
	}
	c, err := Compare([]*File{rate("a", 9), rate("a", 100), rate("a", 10)}, []*File{rate("b", 5), rate("b", 5)}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Spread{Known(10), Known(9), Known(100), 3}); c.Rows[0].A != want || c.Rows[0].Ratio != Known(2) {
		t.Errorf("got %+v", c.Rows[0])
	}
}

func TestWhatWasNotTheSameRunIsNotCompared(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*File)
		want   string
	}{
		{"another trace", func(f *File) { f.Trace.Hash = strings.Repeat("f", 64) }, "trace: a has 0123"},
		{"another load", func(f *File) { f.Load.Level = 2 }, "load: a has 1 agents, b has 2 agents"},
		{"another option", func(f *File) { f.Options["fixed-tokens"] = "12" }, `--fixed-tokens: a has "11", b has "12"`},
		{"one more option", func(f *File) { f.Options["greedy"] = "true" }, `--greedy: a has nothing, b has "true"`},
		{"another machine", func(f *File) { f.Run.CPUs = 4 }, "machine: a has 2 × CPU, b has 4 × CPU"},
		{"another model", func(f *File) { f.Run.Model = "y" }, "model: a has x, b has y"},
		{"a model that may be another", func(f *File) { f.Run.Model = "" }, "model: a has x, b has none told"},
		{"another GPU", func(f *File) { f.Run.GPU = "H200" }, "GPU: a has H100, b has H200"},
		{"a GPU that is not told", func(f *File) { f.Run.GPU = "" }, "GPU: a has H100, b has none told"},
		{"other threads", func(f *File) { f.Run.Threads = "8" }, "threads: a has 2, b has 8"},
		{"threads that are not told", func(f *File) { f.Run.Threads = "" }, "threads: a has 2, b has none told"},
		{"another objective", func(f *File) { f.SLO.E2EL = time.Second }, "SLO: a has e2el=2s, b has e2el=1s"},
		{"streamed", func(f *File) { f.Run.Server[Streamed] = "true" }, "streamed: a has false, b has true"},
		{"an interrupted run", func(f *File) { f.Interrupted = "signal" }, "a run of b was interrupted (signal)"},
	} {
		a, b := run(t, "a"), run(t, "b")
		for _, f := range []*File{a, b} {
			f.Run.Model, f.Run.GPU, f.Run.Threads, f.Run.Server[Streamed] = "x", "H100", "2", "false"
		}
		c.change(b)
		_, err := Compare([]*File{a}, []*File{b}, nil, false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
		got, err := Compare([]*File{a}, []*File{b}, nil, true)
		if err != nil || len(got.Different) != 1 {
			t.Errorf("%s: anyway got %v, %v", c.name, got, err)
		}
		if _, err := Compare([]*File{a, b}, []*File{a}, nil, false); err == nil {
			t.Errorf("%s: a repeat may differ", c.name)
		}
	}
	if _, err := Compare(nil, []*File{run(t, "b")}, nil, false); err == nil {
		t.Error("nothing is compared with something")
	}
}

func TestWhatNoSideCanTellIsNoDifference(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(a, b *File)
	}{
		{"nothing is told", func(_, _ *File) {}},
		{"no objective, no goodput", func(_, b *File) { b.SLO = SLO{} }},
		{"agentd does not stream", func(_, b *File) { b.Run.Server[Streamed] = "true" }},
	} {
		a, b := run(t, "a"), run(t, "b")
		c.change(a, b)
		if _, err := Compare([]*File{a}, []*File{b}, nil, false); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// The first one that tells is held against the others.
	a, b, c := run(t, "a"), run(t, "b"), run(t, "c")
	a.SLO, c.SLO.E2EL = SLO{}, time.Second
	if _, err := Compare([]*File{a}, []*File{b, c}, nil, false); err == nil || !strings.Contains(err.Error(), "SLO: b has e2el=2s, c has e2el=1s") {
		t.Errorf("got %v", err)
	}
}

func TestArmsKeepTheirOrderAndSortTheirLoads(t *testing.T) {
	at := func(name string, level float64) *File {
		f := run(t, name)
		f.Load.Level = level
		return f
	}
	var got []string
	for _, a := range Arms([]*File{at("b", 8), at("a", 4), at("b", 2), at("b", 8)}) {
		got = append(got, a.Name+" "+a.Load.String()+strings.Repeat("+", len(a.Files)-1))
	}
	if want := "b 2 agents, b 8 agents+, a 4 agents"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMetricsHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Metrics() {
		if m.Name == "" || m.Title == "" || m.Of == nil || seen[m.Name] {
			t.Errorf("metric %+v", m)
		}
		seen[m.Name] = true
	}
}
