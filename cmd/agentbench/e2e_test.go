package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/bench/result"
	"agentd/bench/workload"
)

// small is a trace of 3 agents, 2 turns and 2 candidates.
var small = []string{"--agents", "3", "--groups", "1", "--turns", "2", "--candidates", "2", "--tools", "2", "--system-words", "10"}

func loaded(t *testing.T, path string) *result.Full {
	t.Helper()
	full, err := result.LoadFull(path)
	if err != nil {
		t.Fatal(err)
	}
	return full
}

func TestARunMeasuresComparesAndReports(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	out := mustBench(t, append([]string{"trace", "--out", file("t.jsonl")}, small...)...)
	if !strings.Contains(out, "synthetic, 3 agents, 6 turns, 12 candidates") {
		t.Errorf("trace printed\n%s", out)
	}
	for _, name := range []string{"a1", "a2", "b1"} {
		args := []string{
			"run", "--url", new(fake).serve(t), "--trace", file("t.jsonl"), "--warmup-turns", "1", "--max-tokens", "7",
			"--slo", "ttft=1h,e2el=1h", "--name", name[:1], "--out", file(name + ".json"), "--threads", "2", "--gpu", "none",
		}
		out = mustBench(t, append(args, "--html", file(name+".html"))...)
		for _, want := range []string{"Decisions", "Mean batch width", "Steps: decode", "SLO ttft=1h0m0s,e2el=1h0m0s", "written to " + file(name+".json")} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	}
	f := loaded(t, file("a1.json"))
	s := f.Summary
	if s.Requests != 3 || s.Warmup != 3 || s.Candidates != 6 || s.Decisions != 6 || len(f.Records) != 6 || len(f.Samples) < 2 {
		t.Errorf("%d requests, %d for warm-up, %d of %d decisions, %d records, %d samples", s.Requests, s.Warmup, s.Decisions, s.Candidates, len(f.Records), len(f.Samples))
	}
	for _, c := range []struct {
		name string
		want float64
	}{
		{"batch_width", 3}, {"prompt_tok_sent", 6 * fakePrompt}, {"prompt_tok_computed", 3 * fakePrompt},
		{"wasted_tok", 0}, {"goodput_share", 100}, {"distinct_outputs", 2}, {"kv_cells_peak", 60},
	} {
		m, _ := result.MetricNamed(c.name)
		if got := m.Of(&s); got != result.Known(c.want) {
			t.Errorf("%s: got %v, want %g", c.name, got, c.want)
		}
	}
	if s.PromptIdeal.Known || s.ITL.N != 0 {
		t.Errorf("the ideal is %v and there are %d ITL, though nothing told them", s.PromptIdeal, s.ITL.N)
	}
	if f.Run.Server["version"] != "fake-1" || f.Run.Threads != "2" || f.Run.CPU == "" || f.Interrupted != "" || f.Options["warmup-turns"] != "1" {
		t.Errorf("what ran: %+v, options %v", f.Run, f.Options)
	}

	out = mustBench(t, "compare", file("a1.json")+","+file("a2.json"), file("b1.json"), "--fail-under", "ratio=0.000001,failed_requests=1")
	if !strings.Contains(out, "3 agents, 2 runs") {
		t.Errorf("compare printed\n%s", out)
	}
	if _, err := bench(t.Context(), "compare", file("a1.json"), file("b1.json"), "--fail-under", "ratio=1e9"); err == nil || !strings.Contains(err.Error(), "decisions_s: the ratio is") {
		t.Errorf("a missed ratio gives %v", err)
	}
	out = mustBench(t, "report", file("a1.json"), file("a2.json"), file("b1.json"), "--html", file("all.html"))
	page, err := os.ReadFile(file("all.html"))
	if err != nil || !strings.Contains(string(page), "a to b at 3 agents") || !strings.Contains(out, "plots in") {
		t.Errorf("report printed\n%s\n%v", out, err)
	}
	mustBench(t, "report", file("a1.json"))
}

func TestRunsOfDifferentTracesAreNotCompared(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	at := new(fake).serve(t)
	mustBench(t, append([]string{"run", "--url", at, "--out", a}, small...)...)
	mustBench(t, append([]string{"run", "--url", at, "--out", b, "--trace-seed", "2"}, small...)...)
	if _, err := bench(t.Context(), "compare", a, b); err == nil || !strings.Contains(err.Error(), "--anyway compares them nevertheless") {
		t.Errorf("got %v", err)
	}
	if out := mustBench(t, "compare", a, b, "--anyway"); !strings.Contains(out, "NOT THE SAME RUN: trace: ") {
		t.Errorf("compare printed\n%s", out)
	}
}

func TestRefusedRequestsAreCountedAndExplained(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	f := &fake{refuse: func(n int) bool { return n%2 == 0 }}
	out := mustBench(t, append([]string{"run", "--url", f.serve(t), "--out", path, "--arrival", "constant", "--rate", "100000"}, small...)...)
	for _, want := range []string{"Failed requests: refused", "the queue is full"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if s := loaded(t, path).Summary; s.Failures["refused"] != 3 || s.Decisions != 6 {
		t.Errorf("%v failed, %d decisions", s.Failures, s.Decisions)
	}
}

func TestWhatWasMeasuredBeforeASignalIsKeptAndSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	f := &fake{before: func(ctx context.Context, n int) {
		if n == 3 {
			interrupt()
			<-ctx.Done()
		}
	}}
	args := []string{"run", "--url", f.serve(t), "--out", path, "--concurrency", "1"}
	out, err := bench(ctx, append(args, small...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"INTERRUPTED (by a signal)", "3 turns of the trace were not sent"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	got := loaded(t, path)
	if got.Interrupted != "by a signal" || got.Summary.Decisions != 4 || got.Summary.Left != 1 || len(got.Summary.Failures) > 0 {
		t.Errorf("interrupted %q, %d decisions, %d left, failures %v", got.Interrupted, got.Summary.Decisions, got.Summary.Left, got.Summary.Failures)
	}
}

func TestNothingMeasuredIsNoResult(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := bench(ctx, append([]string{"run", "--url", new(fake).serve(t), "--out", path}, small...)...); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a result of nothing was written")
	}
}

// rendering gives every turn of a trace a prompt and tokens: two that all share and
// one of its own.
func rendering(t *testing.T, path, prompt string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, err := workload.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	trace.Header.Model = strings.Repeat("ab", 32)
	for i := range trace.Turns {
		trace.Turns[i].Prompt, trace.Turns[i].Tokens = prompt, []int32{1, 2, int32(100 + i)}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := writeTrace(path, trace); err != nil {
		t.Fatal(err)
	}
}

func TestARenderedTraceTellsTheIdealAndFindsAnotherPrompt(t *testing.T) {
	dir := t.TempDir()
	path, trace := filepath.Join(dir, "r.json"), filepath.Join(dir, "t.jsonl")
	mustBench(t, append([]string{"trace", "--out", trace}, small...)...)
	rendering(t, trace, "the prompt")

	same := &fake{prompt: "the prompt"}
	mustBench(t, "run", "--url", same.serve(t), "--trace", trace, "--out", path)
	got := loaded(t, path)
	if got.Summary.PromptIdeal != result.Known(8) || got.Run.Model != strings.Repeat("ab", 32) {
		t.Errorf("ideal %v, model %q", got.Summary.PromptIdeal, got.Run.Model)
	}

	other := &fake{prompt: "the other"}
	path = filepath.Join(dir, "o.json")
	_, err := bench(t.Context(), "run", "--url", other.serve(t), "--trace", trace, "--out", path, "--concurrency", "1")
	if err == nil || !strings.Contains(err.Error(), "the server's prompt differs from the trace's at byte 4") {
		t.Fatalf("got %v", err)
	}
	if got := loaded(t, path); !strings.HasPrefix(got.Interrupted, "error: ") {
		t.Errorf("interrupted %q", got.Interrupted)
	}
}

func TestWhatIsRecordedCanBeSentAgain(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "t.jsonl")
	server := new(fake).serve(t)
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out strings.Builder
	p := &program{&out, io.Discard}
	done := make(chan error, 1)
	go func() { done <- p.recordTo(ctx, trace, at, listener) }()

	mustBench(t, append([]string{"run", "--url", "http://" + listener.Addr().String()}, small...)...)
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "6 turns of 3 agents") {
		t.Errorf("record printed\n%s", out.String())
	}
	if info, err := os.Stat(trace); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("what people said lies in a file of the mode %v, %v", info.Mode(), err)
	}
	result := filepath.Join(dir, "r.json")
	mustBench(t, "run", "--url", server, "--trace", trace, "--arrival", "recorded", "--out", result)
	if got := loaded(t, result); got.Summary.Decisions != 12 || got.Load.String() != "as recorded" {
		t.Errorf("%d decisions, %s", got.Summary.Decisions, got.Load)
	}
}
