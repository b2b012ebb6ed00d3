package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/bench/result"
	"agentd/bench/workload"
	"agentd/cmd/agentd/export/rows"
)

// small is a trace of 3 agents, 2 turns and 2 candidates.
var small = []string{"--agents", "3", "--groups", "1", "--turns", "2", "--candidates", "2"}

func read(t *testing.T, path string) *result.Run {
	t.Helper()
	r, err := result.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRunMeasuresAndCompareShowsIt(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"a1", "a2", "b1"} {
		out := mustBench(t, append([]string{"run", "--url", new(fake).serve(t), "--max-tokens", "7",
			"--slo", "1h", "--name", name[:1], "--out", file(name + ".json"), "--note", "no GPU"}, small...)...)
		for _, want := range []string{": 3 agents, 6 turns, 12 candidates", "Decisions", "Mean batch width", "Steps: decode", ", no GPU", "written to " + file(name+".json")} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		// The unit precedes the figure.
		if line := strings.Fields(out[strings.Index(out, "  Decisions "):]); line[1] != "1/s" || strings.Trim(line[2], "0123456789.") != "" {
			t.Errorf("decisions/s are %q", line[:3])
		}
	}
	f := read(t, file("a1.json"))
	s := f.Summary
	if s.Requests != 6 || s.Candidates != 12 || s.Decisions != 12 || len(f.Records) != 6 || len(f.Samples) < 2 {
		t.Errorf("%d requests, %d of %d decisions, %d records, %d samples", s.Requests, s.Decisions, s.Candidates, len(f.Records), len(f.Samples))
	}
	for name, want := range map[string]float64{
		result.BatchWidth: 3, "prompt_tok_sent": 6 * fakePrompt, "prompt_tok_computed": 3 * fakePrompt, "kv_cells_peak": 60,
	} {
		if got := result.MetricNamed(name).Of(&s); got != result.Known(want) {
			t.Errorf("%s: got %v, want %g", name, got, want)
		}
	}
	if !s.Goodput.Known || s.PromptUnique.Known || f.Server["version"] != "fake-1" || f.Host.CPU == "" || f.Interrupted != "" || f.Options["max-tokens"] != "7" {
		t.Errorf("%+v", f)
	}
	out := mustBench(t, "compare", file("a1.json"), file("a2.json"), file("b1.json"), "--plots", file("all.svg"))
	page, err := os.ReadFile(file("all.svg"))
	if err != nil || !strings.Contains(string(page), "a, 3 agents") || !strings.Contains(out, "3 agents, 2×") || !strings.Contains(out, "ratio") {
		t.Errorf("compare printed\n%s\n%v", out, err)
	}
}

func TestRunNamesServerAndTakesFewAgents(t *testing.T) {
	for _, agents := range []string{"1", "2", "5"} {
		path := filepath.Join(t.TempDir(), "r.json")
		url := new(fake).serve(t)
		out := mustBench(t, "run", "--url", url, "--agents", agents, "--turns", "1", "--candidates", "1", "--out", path)
		r := read(t, path)
		if want := "measured full-history-agent, version fake-1, at " + url; !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
		if want := r.Server["server"] + " at " + url; r.Name != want {
			t.Errorf("the result is named %q, want %q", r.Name, want)
		}
	}
}

func TestRecordedExchangesCanBeExported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "exchanges.jsonl")
	mustBench(t, append([]string{"run", "--url", new(fake).serve(t), "--record", path}, small...)...)
	sources, err := rows.Open([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	s, err := rows.Run(t.Context(), sources, rows.Config{Kind: rows.Chat, Format: rows.JSONL}, io.Discard)
	if err != nil || s.Situations != 6 || s.Candidates != 12 {
		t.Errorf("%v, %v", s, err)
	}
}

func TestRefusedRequestsAreCountedAndExplained(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	f := &fake{refuse: func(n int) bool { return n%2 == 0 }}
	out := mustBench(t, append([]string{"run", "--url", f.serve(t), "--out", path, "--rate", "100000"}, small...)...)
	if !strings.Contains(out, "the queue is full") {
		t.Errorf("run printed\n%s", out)
	}
	if s := read(t, path).Summary; s.Failures["refused"] != 3 || s.Decisions != 6 {
		t.Errorf("%v failed, %d decisions", s.Failures, s.Decisions)
	}
}

func TestNoDecisionIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	f := &fake{refuse: func(int) bool { return true }}
	out, err := bench(t.Context(), append([]string{"run", "--url", f.serve(t), "--out", path}, small...)...)
	if err == nil || !strings.Contains(err.Error(), "none of 6 requests gave a decision") || !strings.Contains(out, "the queue is full") {
		t.Errorf("%v\n%s", err, out)
	}
	if s := read(t, path).Summary; s.Failures["refused"] != 6 {
		t.Errorf("the result has %v", s.Failures)
	}
}

func TestSignalKeepsWhatWasMeasured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	f := &fake{before: func(ctx context.Context, n int) {
		if n == 40 {
			interrupt()
			<-ctx.Done()
		}
	}}
	out, err := bench(ctx, append(append([]string{"run", "--url", f.serve(t), "--out", path}, small...), "--turns", "30")...)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "was interrupted: interrupted") || !strings.Contains(out, "turns of the trace were not sent: interrupted") {
		t.Errorf("run printed\n%s", out)
	}
	got := read(t, path)
	if got.Interrupted == "" || got.Summary.Decisions == 0 || got.Summary.Cancelled == 0 || len(got.Summary.Failures) > 0 {
		t.Errorf("interrupted %q, %+v", got.Interrupted, got.Summary)
	}
}

func TestNothingMeasuredWritesNoResult(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := bench(ctx, append([]string{"run", "--url", new(fake).serve(t), "--out", path}, small...)...); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a result was written")
	}
}

func TestRenderedTraceCountsUniqueTokensAndChecksPrompts(t *testing.T) {
	source := source{Generate: workload.Options{Seed: 1, Agents: 1, Turns: 1, Candidates: 2, Groups: 1}, Model: builtin}
	trace, err := source.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run := []string{"run", "--model", builtin, "--agents", "1", "--turns", "1", "--candidates", "2"}
	path := filepath.Join(t.TempDir(), "r.json")
	same := &fake{prompt: trace.Turns[0].Prompt}
	mustBench(t, append(run, "--url", same.serve(t), "--out", path)...)
	got := read(t, path)
	if got.Summary.PromptUnique != result.Known(float64(len(trace.Turns[0].Tokens))) || got.Model != trace.Model {
		t.Errorf("unique %v, model %q", got.Summary.PromptUnique, got.Model)
	}
	other := &fake{prompt: trace.Turns[0].Prompt[:4] + "\x00"}
	path = filepath.Join(t.TempDir(), "o.json")
	_, err = bench(t.Context(), append(run, "--url", other.serve(t), "--out", path)...)
	if err == nil || !strings.Contains(err.Error(), "the server's prompt differs from the trace's at byte 4") {
		t.Fatalf("got %v", err)
	}
	if got := read(t, path); !strings.Contains(got.Interrupted, "at byte 4") {
		t.Errorf("interrupted %q", got.Interrupted)
	}
}
