package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// promptOf is a prompt whose tokens are all first.
func promptOf(first core.Token, length int) []core.Token {
	list := make([]core.Token, length)
	for i := range list {
		list[i] = first
	}
	return list
}

func TestPlacementChoosesSoonestContext(t *testing.T) {
	now := time.Unix(1000, 0)
	mine := promptOf(7, 640)
	for name, tc := range map[string]struct {
		loads  []int
		cached []int // tokens of the prompt
		health []health
		latest []core.AdapterID
		tried  uint64
		want   int // -1: nowhere
	}{
		"all idle: the first":                               {loads: []int{0, 0, 0}, want: 0},
		"where less is to be done":                          {loads: []int{500, 100, 300}, want: 1},
		"where its prefix is":                               {loads: []int{0, 0, 0}, cached: []int{0, 0, 320}, want: 2},
		"where most of its prefix is":                       {loads: []int{0, 0, 0}, cached: []int{64, 320, 160}, want: 1},
		"another context if more work is before the prefix": {loads: []int{0, 0, 400}, cached: []int{0, 0, 320}, want: 0},
		"the prefix's context with little work":             {loads: []int{0, 0, 300}, cached: []int{0, 0, 320}, want: 2},
		"incomplete blocks do not count":                    {loads: []int{0, 1, 1}, cached: []int{0, prefixBlock - 1, 0}, want: 0},
		"not where it failed":                               {loads: []int{0, 9000}, tried: 1, want: 1},
		"nowhere, when it failed everywhere":                {loads: []int{0, 0}, tried: 3, want: -1},
		"not where steps keep failing":                      {loads: []int{0, 9000}, health: []health{{downUntil: now.Add(1)}, {}}, want: 1},
		"there again after the pause":                       {loads: []int{0, 9000}, health: []health{{downUntil: now}, {}}, want: 0},
		"there, when there is nowhere else":                 {loads: []int{0, 0}, health: []health{{downUntil: now.Add(1)}, {lost: true}}, want: 0},
		"never on a device that is lost":                    {loads: []int{0}, health: []health{{lost: true}}, want: -1},
		"where the work is of its own adapter":              {loads: []int{400, 400}, latest: []core.AdapterID{1, 0}, want: 1},
		"another adapter's context with much less work":     {loads: []int{100, 400}, latest: []core.AdapterID{1, 0}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Engine{now: func() time.Time { return now }}
			for i, load := range tc.loads {
				w := &worker{index: i, workload: workload{load: load, prefixes: newPrefixIndex(64), assigned: map[*request]struct{}{}}}
				if tc.cached != nil {
					w.prefixes.add(prefixBlocks(0, "", mine[:tc.cached[i]]))
				}
				if tc.latest != nil {
					w.latest = tc.latest[i]
				}
				if tc.health != nil {
					w.health = tc.health[i]
				}
				e.workers = append(e.workers, w)
			}
			j := &request{blocks: prefixBlocks(0, "", mine), gen: generation.Request{Prompt: mine, Params: generation.Params{N: 2, MaxTokens: 1000}}, tried: tc.tried}
			got := -1
			if e.assign(j, false) {
				got = j.worker.index
			}
			if got != tc.want {
				t.Errorf("context %d, want %d", got, tc.want)
			}
		})
	}
}

func TestContextsShareLoad(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{contexts: 3, cells: 512})
	var wg sync.WaitGroup
	for client := range 9 {
		wg.Go(func() {
			for turn := range 3 {
				g := sampled(tokenize(t, m, fmt.Sprint(client, story[:60+10*turn])), 1+client%3, 10, uint32(client*100+turn))
				r, err := generate(t.Context(), e, g)
				if err != nil {
					t.Error(err)
					return
				}
				for i, got := range r.Completions {
					if want := naive(t, m, g, i); !cmp.Equal(got, want) {
						t.Errorf("client %d turn %d candidate %d: %s", client, turn, i, cmp.Diff(want, got))
					}
				}
			}
		})
	}
	wg.Wait()
	all := e.Stats()
	var steps, finished uint64
	for i, c := range e.Contexts() {
		if c.Steps == 0 || !c.Up || c.Device != fmt.Sprint("device ", i) {
			t.Errorf("context %d: %+v", i, c)
		}
		steps, finished = steps+c.Steps, finished+c.Finished
	}
	if all.Steps != steps || all.Finished != finished || finished != 54 || all.Cells != 3*512 || all.Admitted != 0 {
		t.Errorf("%+v; the contexts have %d steps, %d finished", all, steps, finished)
	}
	nothingLeft(t, e)
}

// nothingLeft checks that an idle engine counts no requests.
func nothingLeft(t *testing.T, e *Engine) {
	t.Helper()
	eventually(t, "idle", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, w := range e.workers {
			if w.load != 0 || len(w.inbox) > 0 {
				return false
			}
		}
		return e.admitted == 0
	})
}

func TestNextTurnGoesToSameContext(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{contexts: 2})
	var prompts [2][]llama.Token
	for turn := range 4 {
		for i := range prompts {
			prompts[i] = append(prompts[i], tokenize(t, m, fmt.Sprint(i, story, turn))...)
			r := mustGenerate(t, e, greedy(prompts[i], 1, 4))
			if turn > 0 && r.CachedTokens < len(prompts[i])/2 {
				t.Errorf("turn %d of %d: %d of %d tokens were cached", turn, i, r.CachedTokens, len(prompts[i]))
			}
		}
	}
}

// newBreakingEngine makes an engine of contexts whose Decode returns fail's error.
func newBreakingEngine(t *testing.T, s setup, fail func(context int) error) *Engine {
	s.wrapEach = func(i int, b backend) backend {
		return &faulty{backend: b, decode: func([]core.Row) error { return fail(i) }}
	}
	return newTestEngine(t, s)
}

func TestFailedGenerationIsRetriedElsewhere(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	for name, failure := range map[string]error{"a failed step": llama.ErrCompute, "a lost device": llama.ErrLost} {
		t.Run(name, func(t *testing.T) {
			var steps atomic.Int64
			e := newBreakingEngine(t, setup{contexts: 2}, func(context int) error {
				if context == 0 && steps.Add(1) == 6 {
					return failure
				}
				return nil
			})
			g := sampled(tokenize(t, m, story), 4, 12, 5)
			g.IgnoreEnd = true
			for i, got := range mustGenerate(t, e, g).Completions {
				if want := naive(t, m, g, i); !cmp.Equal(got, want) {
					t.Errorf("candidate %d: %s", i, cmp.Diff(want, got))
				}
			}
			if s := e.Stats(); s.Retried != 1 {
				t.Errorf("%+v", s)
			}
			if up, want := e.Contexts()[0].Up, !errors.Is(failure, llama.ErrLost); up != want || !e.Contexts()[1].Up {
				t.Errorf("up: %v, want %v", up, want)
			}
			if err := e.Failure(); err != nil {
				t.Error(err)
			}
			nothingLeft(t, e)
		})
	}
}

// Both have chosen a context before one of them is assigned, and both are assigned before one of them can end.
func TestRetriesOfALostContextShareTheOthers(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	log := new(lines)
	var e *Engine
	e = newTestEngine(t, setup{contexts: 3, log: zerolog.New(log), wrapEach: func(context int, b backend) backend {
		return &faulty{backend: b, decode: func(rows []core.Row) error {
			if context == 0 && slices.ContainsFunc(rows, func(r core.Row) bool { return r.Seq != rows[0].Seq }) {
				return llama.ErrLost
			}
			for context > 0 && e.Stats().Retried < 2 {
				time.Sleep(time.Millisecond)
			}
			return nil
		}}
	}})
	prompt := tokenize(t, m, story)
	mustGenerate(t, e, greedy(prompt, 1, 2)) // the first context has the prompt, so both requests go there
	var chosen sync.WaitGroup
	chosen.Add(2)
	g := greedy(prompt, 1, 40)
	g.IgnoreEnd = true
	g.Stream, g.Watch = true, func(e generation.Event) {
		if e.Kind == generation.Restarted {
			chosen.Done()
			chosen.Wait()
		}
	}
	admission, err := e.Admit(2, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer admission.Release()
	// Together: else one could end before the other is in its step.
	admission.GenerateAll(t.Context(), []generation.Request{g, g}, func(_ int, r *generation.Result, err error) {
		if err != nil || r.Completions[0].Err != nil {
			t.Errorf("%+v, %v", r, err)
		}
	})
	for i, c := range e.Contexts()[1:] {
		if c.Finished != 1 {
			t.Errorf("context %d finished %d of the two requests, want one", i+1, c.Finished)
		}
	}
	nothingLeft(t, e)
	if !log.has("retrying generation on another context") {
		t.Error("the log does not have the retries")
	}
}

// Requests that only waited on the lost devices are retried.
func TestGenerationIsNotRetriedAfterTwoLostDevices(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	poison := tokenize(t, m, "poison")
	e := newTestEngine(t, setup{contexts: 3, wrapEach: func(_ int, b backend) backend {
		return &faulty{backend: b, decode: func(rows []core.Row) error {
			for _, r := range rows {
				if r.Token == poison[0] {
					return llama.ErrLost
				}
			}
			return nil
		}}
	}})
	r, err := generate(t.Context(), e, greedy(poison, 2, 4))
	if err != nil || !errors.Is(r.Completions[0].Err, llama.ErrLost) {
		t.Errorf("%+v, %v", r, err)
	}
	up := 0
	for _, c := range e.Contexts() {
		if c.Up {
			up++
		}
	}
	if s := e.Stats(); up != 1 || s.Retried != 1 || s.Failed != 1 {
		t.Errorf("%d contexts are up, %+v", up, s)
	}
	mustGenerate(t, e, greedy(tokenize(t, m, "something else"), 2, 4))
	nothingLeft(t, e)
}

func TestNoDeviceLeftReturnsErrModel(t *testing.T) {
	for _, contexts := range []int{1, 2} {
		var lost atomic.Bool
		e := newBreakingEngine(t, setup{contexts: contexts}, func(int) error {
			if lost.Load() {
				return llama.ErrLost
			}
			return nil
		})
		g := greedy(tokenize(t, e.model, story), 2, 5)
		mustGenerate(t, e, g)
		lost.Store(true)
		r, err := generate(t.Context(), e, g)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range r.Completions {
			if !errors.Is(c.Err, ErrModel) || !errors.Is(c.Err, llama.ErrLost) {
				t.Errorf("%d contexts, candidate %d: %+v", contexts, i, c)
			}
		}
		if e.Failure() == nil {
			t.Errorf("%d contexts: no failure is told", contexts)
		}
		if _, err := generate(t.Context(), e, g); !errors.Is(err, ErrModel) {
			t.Errorf("%d contexts, afterwards: %v", contexts, err)
		}
		nothingLeft(t, e)
	}
}

func TestFailingContextIsPaused(t *testing.T) {
	var clock atomic.Int64
	var bad atomic.Bool
	bad.Store(true)
	e := newBreakingEngine(t, setup{contexts: 2, now: func() time.Time { return time.Unix(1000, clock.Load()) }}, func(context int) error {
		if context == 0 && bad.Load() {
			return llama.ErrAllocation
		}
		return nil
	})
	prompt := tokenize(t, e.model, story)
	ask := func(what string, moved uint64, up bool) {
		t.Helper()
		mustGenerate(t, e, greedy(prompt[len(prompt)-3-int(e.Stats().Finished)%8:], 1, 2)) // short, so it has no known prefix
		if s, c := e.Stats(), e.Contexts()[0]; s.Retried != moved || c.Up != up {
			t.Errorf("%s: %d moved, up %v; want %d, %v", what, s.Retried, c.Up, moved, up)
		}
	}
	ask("the first failure", 1, true)
	ask("the second", 2, true)
	ask("the third takes it out", 3, false)
	ask("nothing goes there", 3, false)
	clock.Add(int64(minPause))
	ask("one more failure takes it out again", 4, false)
	clock.Add(int64(minPause))
	ask("for twice as long", 4, false)
	clock.Add(int64(minPause))
	bad.Store(false)
	ask("it works again", 4, true)
	bad.Store(true)
	ask("all is forgotten", 5, true)
}

// Each answer is correct or an error, and no count or sequence is left.
func TestFailuresAndCancellationsLeakNothing(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	var steps atomic.Int64
	e := newBreakingEngine(t, setup{contexts: 3, sequences: 6, outputs: 4}, func(context int) error {
		switch n := steps.Add(1); {
		case n%11 == 0:
			return llama.ErrCompute
		case n > 150 && context == 2:
			return llama.ErrLost
		}
		return nil
	})
	var right, failed, cancelled atomic.Int64
	var wg sync.WaitGroup
	for client := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(client)))
			for turn := range 6 {
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(4) == 0 {
					time.AfterFunc(time.Duration(r.IntN(5))*time.Millisecond, cancel)
				}
				g := sampled(tokenize(t, m, story[:20+r.IntN(60)]), 1+r.IntN(4), 1+r.IntN(12), uint32(client*100+turn))
				result, err := generate(ctx, e, g)
				switch {
				case errors.Is(err, context.Canceled):
					cancelled.Add(1)
				case err != nil:
					t.Error(err)
				default:
					for i, got := range result.Completions {
						if errors.Is(got.Err, ErrModel) {
							failed.Add(1)
						} else if want := naive(t, m, g, i); !cmp.Equal(got, want) {
							t.Errorf("client %d turn %d candidate %d: %s", client, turn, i, cmp.Diff(want, got))
						} else {
							right.Add(1)
						}
					}
				}
				cancel()
			}
		})
	}
	wg.Wait()
	t.Logf("%d right, %d failed, %d cancelled, %+v", right.Load(), failed.Load(), cancelled.Load(), e.Stats())
	if right.Load() == 0 || e.Stats().Retried == 0 || e.Contexts()[2].Up {
		t.Error("the test was to move work and to lose a device")
	}
	nothingLeft(t, e)
}
