package load

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const msec = time.Millisecond

// fake is a server that takes a time for each turn.
type fake struct {
	takes  func(t *workload.Turn) time.Duration     // nil: 10 ms
	answer func(t *workload.Turn, a *target.Answer) // changes the usual answer
	fails  func(t *workload.Turn) error             // in place of an answer
	counts func(n int) (target.Counters, error)     // the n-th reading; nil: none are reported
	asked  func(t *workload.Turn, o target.Options) // called for each turn

	mu                sync.Mutex
	order             []string // of the turns as they came
	running, together int      // now, and at most
	readings          int
}

func (f *fake) Ask(ctx context.Context, t *workload.Turn, o target.Options) (target.Answer, error) {
	f.mu.Lock()
	f.order = append(f.order, fmt.Sprintf("%d.%d", t.Agent, t.Turn))
	f.running++
	f.together = max(f.together, f.running)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.running--
		f.mu.Unlock()
	}()
	if f.asked != nil {
		f.asked(t, o)
	}
	took := 10 * msec
	if f.takes != nil {
		took = f.takes(t)
	}
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return target.Answer{}, ctx.Err()
	}
	if f.fails != nil {
		if err := f.fails(t); err != nil {
			return target.Answer{}, err
		}
	}
	a := target.Answer{
		Candidates:   []target.Candidate{{Tokens: 4}, {Tokens: 4}, {Tokens: 4}},
		PromptTokens: 100, ComputedTokens: 20, OutputTokens: 12, First: -1,
	}
	if f.answer != nil {
		f.answer(t, &a)
	}
	return a, nil
}

func (f *fake) Counters(context.Context) (target.Counters, error) {
	if f.counts == nil {
		return target.Counters{}, target.ErrNoCounters
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readings++
	return f.counts(f.readings)
}

func (f *fake) Describe(context.Context) (map[string]string, error) { return nil, nil }

func (f *fake) Close() error { return nil }

// trace has the turns of some agents, all first turns first.
func trace(agents, turns int) *workload.Trace {
	t := new(workload.Trace)
	for turn := range turns {
		for agent := range agents {
			t.Turns = append(t.Turns, workload.Turn{Agent: agent, Turn: turn, Candidates: 3})
		}
	}
	return t
}

// must runs a trace without an error.
func must(t *testing.T, f *fake, trace *workload.Trace, o Options) *result.Run {
	t.Helper()
	r, err := Run(t.Context(), f, trace, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// inBubble runs a subtest with its own clock.
func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}
