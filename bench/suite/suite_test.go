package suite

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/bench/result"
	"agentd/bench/workload"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata")

func TestServersTakeTurnsAndStartFresh(t *testing.T) {
	f := newFakes(t)
	s := f.session()
	s.AgentdArgs = []string{"--more", "x"}
	s.best = Setting{Slots: 8, Cache: Cache{FlashAttention: "auto"}}
	m := measured(s)
	if err := s.repeat(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"agentd", "llama-server", "agentd", "llama-server"}, f.runs); diff != "" || len(f.args) != 4 {
		t.Errorf("%s, %d servers", diff, len(f.args))
	}
	for _, args := range f.args {
		agentd := has(args, `"--threads","2"`, `"--debug","fixed-tokens=8"`, `"--context-length","32768"`, `"--temperature","1"`, `"--more","x"`)
		server := has(args, `"--threads","2"`, `"--parallel","8"`, `"--ctx-size","2048"`, `"--no-cache-idle-slots"`)
		if agentd == server {
			t.Errorf("started with %s", args)
		}
	}
	if m.Agentd.Repeats != 2 || m.Server.Repeats != 2 || !m.Agentd.Decisions.Median.Known || m.Figures[rowComputed].X != 1.02 {
		t.Errorf("agentd: %+v, %+v", m.Agentd, m.Figures)
	}
	for _, name := range []string{"small-agentd-1.json", "small-llama-server-2.json", "small.svg"} {
		if _, err := os.Stat(filepath.Join(s.Dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestVLLMTakesItsTurnWhereItIsMeasured(t *testing.T) {
	for _, measured := range []bool{true, false} {
		f := newFakes(t)
		s := f.session()
		s.VLLM, s.vllm = s.LlamaServer, measured
		var names []string
		if err := s.turns(t.Context(), func(r *result.Run) { names = append(names, r.Name) }); err != nil {
			t.Fatal(err)
		}
		want := []string{"agentd", "llama-server", "agentd", "llama-server"}
		if measured {
			want = []string{"agentd", "vllm", "llama-server", "agentd", "vllm", "llama-server"}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%q, want %q", names, want)
		}
		n := 0
		for _, args := range f.args {
			if has(args, `"--cells","32768"`, `"--threads","2"`, `"--max-num-seqs","8"`, `"--max-model-len","256"`) {
				n++
			}
		}
		if n != len(want)-4 {
			t.Errorf("%d servers have the arguments of vLLM, want %d", n, len(want)-4)
		}
	}
}

func TestRepeatsBeforeAnErrorCount(t *testing.T) {
	for _, test := range []struct {
		name           string
		failing        int // run
		agentd, server int // repeats
		page           bool
	}{
		{"nothing measured", 1, 0, 0, false},
		{"one run", 2, 1, 0, true},
		{"one repeat", 3, 1, 1, true},
		{"one server more often", 4, 2, 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFakes(t)
			f.breaks = func(_, _ string, run int) bool { return run == test.failing }
			s := f.session()
			s.best = Setting{Slots: 8, Cache: Cache{FlashAttention: "off"}}
			m := measured(s)
			if err := s.repeat(t.Context(), m); err == nil || !strings.Contains(err.Error(), "it is broken") {
				t.Errorf("got %v", err)
			}
			_, err := os.Stat(filepath.Join(s.Dir, "small.svg"))
			if m.Agentd.Repeats != test.agentd || m.Server.Repeats != test.server || m.Agentd.Decisions.Median.Known != (test.agentd > 0) || (err == nil) != test.page {
				t.Errorf("agentd %+v, llama-server %+v, page %v", m.Agentd, m.Server, err)
			}
		})
	}
}

func TestTuneFindsTheWorkingSetting(t *testing.T) {
	f := newFakes(t)
	f.breaks = func(_, args string, _ int) bool { return !has(args, `"-no-kvu"`, `"-fa","off"`, `"--parallel","2"`) }
	s := f.session()
	m := measured(s)
	if err := s.tune(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if want := (Setting{Slots: 2, Cache: Cache{FlashAttention: "off"}}); s.best != want || m.Best != want {
		t.Errorf("got %s", s.best)
	}
	var tried []string
	for _, x := range m.Tuning {
		tried = append(tried, x.Setting.String())
		if (x.Error == "") != (x.Setting == m.Best) || x.Decisions.Known != (x.Setting == m.Best) {
			t.Errorf("%+v", x)
		}
	}
	if diff := cmp.Diff([]string{
		"-np 8 -no-kvu -fa auto", "-np 8 -no-kvu -fa off", "-np 8 -kvu -fa auto", "-np 8 -kvu -fa off",
		"-np 2 -no-kvu -fa auto", "-np 2 -no-kvu -fa off", "-np 2 -kvu -fa auto", "-np 2 -kvu -fa off",
	}, tried); diff != "" {
		t.Error(diff)
	}
	if quick := s.settings(true); len(quick) != 4 {
		t.Errorf("a quick look tries %d settings", len(quick))
	}
	f.breaks = func(string, string, int) bool { return true }
	if err := s.tune(t.Context(), measured(s)); err == nil || !strings.Contains(err.Error(), "failed with every setting; the last error: llama-server: requests failed") {
		t.Errorf("got %v", err)
	}
}

func TestMissingProgramNamesItsMakeTarget(t *testing.T) {
	dir := t.TempDir()
	o := Options{Loads: []string{"tiny"}, Agentd: filepath.Join(dir, "agentd"), LlamaServer: filepath.Join(dir, "llama-server"), Dir: dir}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "agentd is missing; make agentd builds it") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(o.Agentd, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "llama-server is missing; make peers builds it") {
		t.Errorf("got %v", err)
	}
	o.LlamaServer, o.VLLM = o.Agentd, filepath.Join(dir, "vllm.sh")
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "vllm.sh is missing; start agentbench in the root of a checkout") {
		t.Errorf("got %v", err)
	}
}

func TestStandardLoadsAreValid(t *testing.T) {
	for _, quick := range []bool{false, true} {
		for _, w := range loads(quick) {
			if _, err := workload.Generate(w.Trace); err != nil {
				t.Errorf("%s: %v", w.Name, err)
			}
			if w.TuneTurns < min(2, w.Trace.Turns) || w.TuneTurns > w.Trace.Turns || w.Goal < 1 || (w.FixedTokens > 0) == (w.MaxTokens > 0) {
				t.Errorf("%+v", w)
			}
		}
	}
}

func TestUnknownLoadsAreRefused(t *testing.T) {
	for _, loads := range [][]string{nil, {"tiny", "small"}} {
		if r, err := Run(t.Context(), Options{Loads: loads, Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "household, tiny, 0.1b, 0.6b, moe, moe-mxfp4, calls") {
			t.Errorf("%q: got %v, %v", loads, r, err)
		}
	}
}

func TestLargeModelsAreNotMeasuredByDefault(t *testing.T) {
	all, usual := Names()
	if want := []string{"household", "tiny", "0.1b", "0.6b", "moe", "moe-mxfp4", "calls"}; !slices.Equal(all, want) {
		t.Errorf("all are %q, want %q", all, want)
	}
	if want := []string{"household", "tiny", "calls"}; !slices.Equal(usual, want) {
		t.Errorf("by default %q, want %q", usual, want)
	}
}

// sample is a comparison with figures that reach their goals, miss them, and are unknown.
func sample() *Result {
	k, off := result.Known, Cache{FlashAttention: "off"}
	w := &Load{Name: "a", Title: "first", Trace: workload.Options{Agents: 16, Candidates: 4, Turns: 6}, FixedTokens: 32, Goal: 1.7}
	c := &Load{Name: "b", Title: "calls", Trace: workload.Options{Agents: 2, Candidates: 3, Turns: 4}, MaxTokens: 128, Goal: 2.5}
	return &Result{
		Version: Version, Made: time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC), Commit: "v1", Host: result.Host{CPU: "A CPU", CPUs: 2}, Threads: 2, Repeats: 5, LoadAverage: 0.25, Seconds: 800,
		Loads: []*Measured{{
			Load: w, Counts: workload.Counts{PromptTokens: 1000, UniqueTokens: 400},
			Tuning: []Tried{
				{Setting{8, Cache{Unified: true, FlashAttention: "auto"}}, k(3), ""},
				{Setting{4, off}, k(4), ""}, {Setting{2, off}, result.Value{}, "it crashed"},
			},
			Best:   Setting{4, off},
			Agentd: Server{Repeats: 5, Decisions: result.Spread{Median: k(17), Min: k(16), Max: k(18)}, TTFT: result.Spread{Median: k(100)}, Width: result.Spread{Median: k(30.25)}},
			Server: Server{Repeats: 5, Decisions: result.Spread{Median: k(10), Min: k(9), Max: k(11)}, TTFT: result.Spread{Median: k(200)}},
			VLLM: Server{
				Repeats: 5, Decisions: result.Spread{Median: k(11), Min: k(10), Max: k(12)}, Turn: result.Spread{Median: k(3000)}, TurnP99: result.Spread{Median: k(4000)},
				Computed: result.Spread{Median: k(500)}, Memory: result.Spread{Median: k(2000)}, CPU: result.Spread{Median: k(70)},
			},
			Figures: map[string]result.Value{rowVLLM: k(1.55), rowServer: k(1.7), rowComputed: k(1.03)},
		}, {Load: c, Error: "llama-server: it crashed", Agentd: Server{Repeats: 1}}},
	}
}

func TestTablesShowFiguresAndGoals(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	const path = "testdata/suite.golden"
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

func TestResultIsSavedWithItsTables(t *testing.T) {
	dir := t.TempDir()
	if err := sample().save(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{ResultFile: `"flash_attention": "off"`, TableFile: "| **no** |"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}
