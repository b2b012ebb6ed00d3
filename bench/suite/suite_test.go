package suite

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/bench/ceiling"
	"agentd/bench/render"
	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
)

// fakeSession is one of a small load, whose servers are fakes. measure is told the
// flags of each run of the trace and gives its decisions/s; below 0 it fails.
func fakeSession(t *testing.T, measure func(flags map[string]string) float64) *session {
	t.Helper()
	w := &Workload{Name: "small", Title: "small", Trace: workload.Options{Agents: 4, Candidates: 2}, FixedTokens: 8, Goal: 1.5, longest: 100}
	w.counts = render.Counts{Turns: 4, Candidates: 8, PromptTokens: 400, UniqueTokens: 200}
	w.paths.whole, w.paths.tune, w.paths.warm = "whole", "tune", "warm"
	program := self(t, "well")
	o := &Options{
		Agentd: program, LlamaServer: program, BatchedBench: program, Dir: t.TempDir(), Repeats: 2, Threads: 2, Log: func(string) {},
		Measure: func(ctx context.Context, args []string) error {
			flags := map[string]string{}
			for i := 0; i < len(args); i += 2 {
				flags[strings.TrimPrefix(args[i], "--")] = args[i+1]
			}
			if flags["trace"] == "warm" {
				if flags["out"] != "" {
					t.Error("the warm-up is written")
				}
				return nil
			}
			flags["args"] = argsOf(ctx, t, flags["url"])
			rate := measure(flags)
			if rate < 0 {
				return errors.New("it did not go well")
			}
			return result.Save(flags["out"], fakeFile(flags["name"], rate), []result.Record{{Candidates: 8, Done: 1}}, []result.Sample{{}})
		},
	}
	return &session{Options: o, Workload: w}
}

// argsOf are a fake server's arguments.
func argsOf(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/args", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

func fakeFile(name string, rate float64) *result.File {
	return &result.File{
		Version: result.Version, Made: time.Unix(0, 0), Run: result.Run{Name: name, Target: name},
		Trace: result.Trace{Hash: strings.Repeat("ab", 32), Kind: "synthetic", Agents: 4, Turns: 4, Candidates: 8},
		Load:  result.Load{Kind: result.Closed, Level: 4},
		Summary: result.Summary{
			Requests: 4, Candidates: 8, Decisions: 8, DecisionRate: result.Known(rate), OutputRate: result.Known(rate * 8), Span: result.Known(8 / rate),
			PromptComputed: result.Known(204), PromptIdeal: result.Known(200),
		},
	}
}

func TestTheArmsAreMeasuredInTurnsOnFreshServersWithTheSameLoad(t *testing.T) {
	var order, urls []string
	s := fakeSession(t, func(flags map[string]string) float64 {
		order, urls = append(order, flags["name"]), append(urls, flags["url"])
		if flags["trace"] != "whole" || flags["fixed-tokens"] != "8" || flags["threads"] != "2" {
			t.Errorf("%v", flags)
		}
		want := []string{`"--threads","2"`, `"--parallel","8"`, `"--ctx-size","2048"`}
		if flags["name"] == "agentd" {
			want = []string{`"--threads","2"`, `"--fixed-tokens","8"`, `"--context-length","32768"`, `"--temperature","1"`, `"--more","x"`}
		}
		for _, w := range want {
			if !strings.Contains(flags["args"], w) {
				t.Errorf("%s has no %s in %s", flags["name"], w, flags["args"])
			}
		}
		return map[string]float64{"agentd": 30, "llama-server": 20}[flags["name"]] + float64(len(order))
	})
	s.AgentdArgs = []string{"--more", "x"}
	s.best = Setting{Slots: 8, Mode: target.ModeN, Cache: ceiling.Cache{FlashAttention: "auto"}}
	m := &Measured{Workload: s.Workload}
	if err := s.repeat(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"agentd", "llama-server", "agentd", "llama-server"}, order); diff != "" {
		t.Error(diff)
	}
	if slices.Sort(urls); len(slices.Compact(urls)) != 4 {
		t.Errorf("a server was used again: %v", urls)
	}
	// 200 tokens at 1000 tok/s and 64 at 800 tok/s, which 8 sequences reach.
	if m.Ceiling != (ceiling.Speeds{Prefill: 1000, Decode: 800, Width: 8}) || m.Ideal.X < 28.57 || m.Ideal.X > 28.58 {
		t.Errorf("ceiling %+v, ideal %v", m.Ceiling, m.Ideal)
	}
	if m.Agentd.Repeats != 2 || m.Server.Repeats != 2 || m.Agentd.Decisions != (Spread{result.Known(32), result.Known(31), result.Known(33)}) || m.Agentd.Computed.Median.X != 1.02 || m.Agentd.Output.Median.X != 64 {
		t.Errorf("agentd: %+v", m.Agentd)
	}
	for _, name := range []string{"small-agentd-1.json", "small-llama-server-2.requests.jsonl", "small.html"} {
		if _, err := os.Stat(filepath.Join(s.Dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatWasMeasuredBeforeAnErrorCounts(t *testing.T) {
	for _, test := range []struct {
		name           string
		failing        int // run
		agentd, server int // repeats
		ideal, page    bool
	}{
		{"nothing was", 1, 0, 0, false, false},
		{"one run, before any speed", 2, 1, 0, false, true},
		{"a repeat", 3, 1, 1, true, true},
		{"a repeat of one arm more", 4, 2, 1, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := 0
			s := fakeSession(t, func(map[string]string) float64 {
				if n++; n == test.failing {
					return -1
				}
				return 20
			})
			s.best = Setting{Slots: 8, Mode: target.ModeN, Cache: ceiling.Cache{FlashAttention: "off"}}
			m := &Measured{Workload: s.Workload, Batched: ceiling.Cache{FlashAttention: "off"}}
			if err := s.repeat(t.Context(), m); err == nil || !strings.Contains(err.Error(), "it did not go well") {
				t.Errorf("got %v", err)
			}
			_, err := os.Stat(filepath.Join(s.Dir, "small.html"))
			if m.Agentd.Repeats != test.agentd || m.Server.Repeats != test.server || m.Agentd.Decisions.Median.Known != (test.agentd > 0) ||
				m.Ideal.Known != test.ideal || (err == nil) != test.page {
				t.Errorf("agentd %+v, llama-server %+v, ideal %v, page %v", m.Agentd, m.Server, m.Ideal, err)
			}
		})
	}
}

func TestAProgramThatWasNotBuiltIsNamedWithItsMakeTarget(t *testing.T) {
	dir := t.TempDir()
	o := Options{Loads: []string{"tiny"}, Agentd: filepath.Join(dir, "agentd"), LlamaServer: filepath.Join(dir, "llama-server"), BatchedBench: filepath.Join(dir, "b"), Dir: dir}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "agentd is missing; make agentd builds it") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(o.Agentd, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "llama-server is missing; make peers builds it") {
		t.Errorf("got %v", err)
	}
}

func TestTheStandardWorkloadsAreWhatTheyMayBe(t *testing.T) {
	for _, quick := range []bool{false, true} {
		for _, w := range workloads(quick) {
			if err := w.Trace.Validate(); err != nil {
				t.Errorf("%s: %v", w.Name, err)
			}
			// The turn after the first shows which settings lose prefixes.
			if w.TuneTurns < min(2, w.Trace.Turns) || w.TuneTurns > w.Trace.Turns || w.Goal < 1 || (w.FixedTokens > 0) == (w.MaxTokens > 0) {
				t.Errorf("%+v", w)
			}
		}
	}
}

func TestLoadsThatDoNotExistAreRefused(t *testing.T) {
	for _, loads := range [][]string{nil, {"tiny", "small"}} {
		if r, err := Run(t.Context(), Options{Loads: loads, Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "household, tiny, 0.6b, calls") {
			t.Errorf("%q: got %v, %v", loads, r, err)
		}
	}
}

func TestTheLoadOfALargeModelIsMeasuredOnlyWhereAskedFor(t *testing.T) {
	all, usual := Names()
	if want := []string{"household", "tiny", "0.6b", "calls"}; !slices.Equal(all, want) {
		t.Errorf("all are %q, want %q", all, want)
	}
	if want := []string{"household", "tiny", "calls"}; !slices.Equal(usual, want) {
		t.Errorf("by default %q, want %q", usual, want)
	}
}

// seen makes moments, 10 ms apart: of each running, prefilled, generated, steps.
func seen(list ...[4]float64) []moment {
	var all []moment
	for i, x := range list {
		all = append(all, moment{target.Counters{Running: x[0], Prefilled: x[1], Generated: x[2], Steps: x[3]}, time.Duration(i) * 10 * time.Millisecond})
	}
	return all
}

func TestAWindowIsWhereAllDecodeAndNothingElseHappens(t *testing.T) {
	for _, test := range []struct {
		name     string
		seen     []moment
		from, to int // of the window, in ms; 0, 0: none
	}{
		{"nothing seen", nil, 0, 0},
		{"one moment is none", seen([4]float64{4, 9, 0, 0}), 0, 0},
		{"from the first to the last", seen([4]float64{1, 9, 0, 0}, [4]float64{4, 9, 8, 2}, [4]float64{4, 9, 16, 4}, [4]float64{4, 9, 24, 6}, [4]float64{3, 9, 30, 8}), 10, 30},
		{"a prefill ends it", seen([4]float64{4, 5, 0, 0}, [4]float64{4, 9, 0, 1}, [4]float64{4, 9, 20, 6}), 10, 20},
		{"too few steps", seen([4]float64{1, 9, 0, 0}, [4]float64{4, 9, 4, 1}, [4]float64{4, 9, 16, 4}), 0, 0},
		{"the longest of two", seen([4]float64{1, 9, 0, 0}, [4]float64{4, 9, 4, 1}, [4]float64{4, 9, 20, 5}, [4]float64{3, 9, 20, 5}, [4]float64{4, 9, 24, 6}, [4]float64{4, 9, 40, 10}, [4]float64{4, 9, 60, 15}), 40, 60},
		{"more than asked for", seen([4]float64{5, 9, 0, 0}, [4]float64{5, 9, 20, 5}, [4]float64{5, 9, 40, 10}), 0, 0},
		{"from behind one step to behind another", seen([4]float64{1, 9, 0, 0}, [4]float64{4, 9, 0, 0}, [4]float64{4, 9, 4, 1}, [4]float64{4, 9, 4, 1}, [4]float64{4, 9, 24, 6}, [4]float64{4, 9, 24, 6}), 20, 40},
		{"what was seen first says nothing of the step before", seen([4]float64{4, 9, 0, 0}, [4]float64{4, 9, 20, 5}), 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			from, to, ok := window(test.seen, decoding(4))
			if ok != (test.to > 0) || from.at.Milliseconds() != int64(test.from) || to.at.Milliseconds() != int64(test.to) {
				t.Errorf("from %s to %s, %v", from.at, to.at, ok)
			}
		})
	}
}

func TestAWindowIsBusyAlsoWhereSomeBeginAndEnd(t *testing.T) {
	from, to, ok := window(seen([4]float64{20, 9, 0, 0}, [4]float64{32, 9, 20, 1}, [4]float64{28, 12, 60, 4}, [4]float64{32, 15, 120, 6}, [4]float64{27, 15, 200, 8}, [4]float64{33, 15, 300, 12}), busy(32))
	if !ok || from.at != 10*time.Millisecond || to.at != 30*time.Millisecond {
		t.Errorf("from %s to %s, %v", from.at, to.at, ok)
	}
}

// sample is a comparison with figures that reach their goals, miss them, and are
// unknown.
func sample() *Result {
	k, off := result.Known, ceiling.Cache{FlashAttention: "off"}
	w := &Workload{Name: "a", Title: "first", Trace: workload.Options{Agents: 16, Candidates: 4, Turns: 6}, FixedTokens: 32, Goal: 1.7}
	c := &Workload{Name: "b", Title: "calls", Trace: workload.Options{Agents: 2, Candidates: 3, Turns: 4}, MaxTokens: 128, Goal: 2.5}
	r := &Result{
		Version: Version, Made: time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC), Commit: "v1", CPU: "A CPU", CPUs: 2, Threads: 2, Repeats: 5, Load: 0.25, Seconds: 800,
		Workloads: []*Measured{{
			Workload: w, Counts: Counts{PromptTokens: 1000, UniqueTokens: 400},
			Tuning: []Tried{
				{Setting{8, ceiling.Cache{Unified: true, FlashAttention: "auto"}, hostReplaced, target.ModeN}, k(3), ""},
				{Setting{4, off, hostNone, target.ModeSeparate}, k(4), ""}, {Setting{2, off, hostIdle, target.ModeN}, result.Value{}, "it crashed"},
			},
			Best:    Setting{4, off, hostNone, target.ModeSeparate},
			Agentd:  Figures{Repeats: 5, Decisions: Spread{k(17), k(16), k(18)}, TTFT: Spread{Median: k(100)}, Computed: Spread{Median: k(1.03)}, Width: Spread{Median: k(30.25)}},
			Server:  Figures{Repeats: 5, Decisions: Spread{k(10), k(9), k(11)}, TTFT: Spread{Median: k(200)}},
			Ceiling: ceiling.Speeds{Prefill: 3000, Decode: 900, Width: 64}, Batched: off, Ideal: k(20),
			Probe: Probe{Width: 32}, Lockstep: k(0.96), Staggered: k(0.8), Cells: k(1.05), ManyTTFT: k(1.2), Host: k(99.6), Sample: k(500), Decode: k(4000),
		}, {Workload: c, Error: "llama-server: it crashed", Agentd: Figures{Repeats: 1}}},
	}
	r.Rows = rows(r)
	return r
}

func TestTheTablesSayWhatWasReached(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	const path = "testdata/suite.md"
	if *rewrite {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestADocumentsTablesAreReplacedBetweenItsMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.md")
	put := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("# Head\n" + markBegin + "old\n" + markEnd + "foot\n")
	for range 2 { // the second time changes nothing
		if err := sample().Renew(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := sample().WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("# Head\n"+markBegin+"\n"+b.String()+"\n"+markEnd+"foot\n", string(got)); diff != "" {
		t.Error(diff)
	}
	put("# Head\n" + markBegin)
	if err := sample().Renew(path); err == nil || !strings.Contains(err.Error(), "lacks the lines") {
		t.Errorf("got %v", err)
	}
}

func TestAResultIsWrittenWithItsTable(t *testing.T) {
	dir := t.TempDir()
	if err := sample().save(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{ResultFile: `"host_cache": "--cache-ram 0"`, TableFile: "| **no** |"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	if err := sample().save(dir); err == nil {
		t.Error("an older result was written over")
	}
}
