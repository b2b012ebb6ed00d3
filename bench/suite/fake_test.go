package suite

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
)

// fakes are servers whose processes only listen, and whose targets answer without them.
type fakes struct {
	t      *testing.T
	breaks func(name, args string, run int) bool // the run, counted from 1, fails
	runs   []string                              // names of the servers that got a whole trace
	args   map[string]string                     // of the servers, by URL
}

func newFakes(t *testing.T) *fakes {
	return &fakes{t: t, breaks: func(string, string, int) bool { return false }, args: map[string]string{}}
}

// session measures a small load on the fakes.
func (f *fakes) session() *session {
	w := &Load{Name: "small", Title: "small", Trace: workload.Defaults(), FixedTokens: 8, Goal: 1.5, longest: 100}
	w.Trace.Agents, w.Trace.Groups, w.Trace.Turns, w.Trace.Candidates = 4, 1, 1, 2
	trace, err := workload.Generate(w.Trace)
	if err != nil {
		f.t.Fatal(err)
	}
	w.trace, w.short, w.warm = trace, trace, &workload.Trace{Turns: trace.Turns[:1]}
	w.counts = workload.Counts{Turns: 4, Candidates: 8, PromptTokens: 400, UniqueTokens: 200}
	program := self(f.t, "well")
	o := &Options{Agentd: program, LlamaServer: program, Dir: f.t.TempDir(), Repeats: 2, Threads: 2, Log: func(string) {}}
	return &session{Options: o, Load: w, connect: f.connect}
}

// connect asks the process for its arguments.
func (f *fakes) connect(name, url, _ string) (target.Target, error) {
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, url+"/args", nil)
	if err != nil {
		return nil, err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	f.runs = append(f.runs, name)
	f.args[url] = string(body)
	return &fakeTarget{broken: f.breaks(name, string(body), len(f.runs))}, nil
}

// fakeTarget counts steps and tokens. A broken one fails the requests of all agents but
// the first, and so passes the warm-up.
type fakeTarget struct {
	broken bool

	mu sync.Mutex
	c  target.Counters
}

func (f *fakeTarget) Ask(_ context.Context, t *workload.Turn, o target.Options) (target.Answer, error) {
	if f.broken && t.Agent > 0 {
		return target.Answer{}, &target.Failure{Kind: target.Refused, Err: errors.New("it is broken")}
	}
	a := target.Answer{PromptTokens: 100, ComputedTokens: 51, OutputTokens: t.Candidates * o.FixedTokens, First: time.Nanosecond}
	for range t.Candidates {
		a.Candidates = append(a.Candidates, target.Candidate{Tokens: o.FixedTokens})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.c.Steps += 8
	f.c.Rows += 16
	f.c.CellsUsed = float64(len(t.Tokens) + a.OutputTokens)
	return a, nil
}

func (f *fakeTarget) Counters(context.Context) (target.Counters, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.c, nil
}

func (f *fakeTarget) Describe(context.Context) (map[string]string, error) { return nil, nil }
func (f *fakeTarget) Close() error                                        { return nil }

// measured is an empty result of a session.
func measured(s *session) *Measured {
	return &Measured{Load: s.Load, Figures: map[string]result.Value{}}
}

func has(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
