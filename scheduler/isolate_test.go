package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// stepRecorder keeps the rows of every step since the cache was last emptied.
type stepRecorder struct {
	backend
	mu   sync.Mutex
	runs [][]string
}

func (r *stepRecorder) Clear(zero bool) error {
	r.mu.Lock()
	r.runs = append(r.runs, nil)
	r.mu.Unlock()
	return r.backend.Clear(zero)
}

func (r *stepRecorder) Decode(rows []core.Row) error {
	r.mu.Lock()
	last := &r.runs[len(r.runs)-1]
	*last = append(*last, fmt.Sprint(rows))
	r.mu.Unlock()
	return r.backend.Decode(rows)
}

func TestIsolatedStepsDoNotDependOnLoad(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	number, tokens := count(12, 3), count(8, 3)
	prompt := func(i int) []llama.Token { return tokenize(t, m, fmt.Sprint(story[:40], i, story[i:])) }
	request := func(i int) generation.Request { return sampled(prompt(i%6), 1+i%3, tokens, uint32(i)) }
	ask := func(concurrent bool) (runs [][]string, results []*generation.Result) {
		var r *stepRecorder
		e := newTestEngine(t, setup{cfg: Config{Isolate: true, Policy: Policy{DraftRows: 6}}, wrap: func(b backend) backend { r = &stepRecorder{backend: b}; return r }})
		results = make([]*generation.Result, number)
		var wg sync.WaitGroup
		for i := range results {
			one := func() {
				result, err := generate(t.Context(), e, request(i))
				if err != nil {
					t.Error(err)
					return
				}
				result.Times = generation.Times{}
				results[i] = result
			}
			if concurrent {
				wg.Go(one)
			} else {
				one()
			}
		}
		wg.Wait()
		if s := e.Stats(); s.CachedTokens != 0 || s.Finished != uint64(2*number) || s.Waiting != 0 || s.Running != 0 {
			t.Errorf("%+v", s)
		}
		nothingLeft(t, e)
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.runs, results
	}
	inTurn, want := ask(false)
	together, got := ask(true)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if t.Failed() {
		return
	}
	for i, result := range want { // and so got's completions
		for k := range result.Completions {
			if diff := cmp.Diff(naive(t, m, request(i), k), result.Completions[k]); diff != "" {
				t.Errorf("generation %d, candidate %d: %s", i, k, diff)
			}
		}
	}
	// Only the order of the generations differs.
	order := func(a, b []string) int { return slices.Compare(a, b) }
	slices.SortFunc(inTurn, order)
	slices.SortFunc(together, order)
	if len(inTurn) != number || !cmp.Equal(inTurn, together) {
		t.Errorf("%d generations, computed otherwise together: %s", len(inTurn), cmp.Diff(inTurn, together))
	}
}

// gated makes an engine of contexts that isolate and holds the
// first step of the first one. hold asks for a generation and does not wait.
func gated(t *testing.T, contexts int, failure error) (e *Engine, first *gate, hold func(context.Context) chan error) {
	e = newTestEngine(t, setup{contexts: contexts, cfg: Config{Isolate: true}, wrapEach: func(i int, b backend) backend {
		if i > 0 {
			return b
		}
		first = newGate(&faulty{backend: b, decode: func([]core.Row) error { return failure }})
		return first
	}})
	g := greedy(tokenize(t, e.model, story), 1, 6)
	hold = func(ctx context.Context) chan error {
		result := make(chan error, 1)
		before := e.Stats().Admitted
		go func() {
			r, err := generate(ctx, e, g)
			if err == nil {
				err = r.Completions[0].Err
			}
			result <- err
		}()
		eventually(t, "submitted", func() bool { return e.Stats().Admitted > before })
		return result
	}
	return e, first, hold
}

func TestIsolatedQueuedGenerationCanBeCancelled(t *testing.T) {
	e, first, hold := gated(t, 1, nil)
	running := hold(t.Context())
	<-first.enter
	ctx, cancel := context.WithCancel(t.Context())
	gone, waiting := hold(ctx), hold(t.Context())
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	close(first.open)
	for _, result := range []chan error{running, waiting} {
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
	if s := e.Stats(); s.Finished != 2 {
		t.Errorf("%+v", s)
	}
	nothingLeft(t, e)
}

func TestIsolatedQueueMovesWhenDeviceIsLost(t *testing.T) {
	e, first, _ := gated(t, 2, llama.ErrLost)
	const count = 6
	admission, err := e.Admit(count, 0)
	if err != nil {
		t.Fatal(err)
	}
	g := greedy(tokenize(t, e.model, story), 1, 6)
	pending := submitAll(t, admission, g, g, g, g, g, g) // placed at once, so both have some
	<-first.enter
	close(first.open)
	for _, p := range pending {
		r, err := admission.wait(t.Context(), p)
		if err != nil || r.Completions[0].Err != nil {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if s := e.Stats(); s.Retried < 2 || s.Finished != count {
		t.Errorf("%+v", s)
	}
	nothingLeft(t, e)
}

func TestIsolatedQueueEndsWithEngine(t *testing.T) {
	e, first, hold := gated(t, 1, nil)
	results := []chan error{hold(t.Context()), hold(t.Context()), hold(t.Context())}
	<-first.enter
	go e.Close()
	eventually(t, "closing", func() bool { _, err := e.Admit(1, 0); return err != nil })
	close(first.open)
	for _, result := range results {
		if err := <-result; !errors.Is(err, ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	}
}
