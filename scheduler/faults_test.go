package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// newFaultyEngine makes an engine whose Decode returns fail's error for the number of the
// step, from 1.
func newFaultyEngine(t *testing.T, s setup, fail func(step int, rows []core.Row) error) *Engine {
	step := 0
	s.wrap = func(b backend) backend {
		return &faulty{backend: b, decode: func(rows []core.Row) error {
			step++
			return fail(step, rows)
		}}
	}
	return newTestEngine(t, s)
}

func TestNoSlotIsRetriedWithFewerRows(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	g := sampled(tokenize(t, m, story), 4, 12, 5)
	for name, fail := range map[string]func(step int, rows []core.Row) error{
		"now and then": func(step int, _ []core.Row) error {
			if step%3 == 0 {
				return llama.ErrNoKVSlot
			}
			return nil
		},
		"for wide batches": func(_ int, rows []core.Row) error {
			if len(rows) > 2 {
				return llama.ErrNoKVSlot
			}
			return nil
		},
		"for more than one sequence": func(_ int, rows []core.Row) error {
			for _, r := range rows {
				if r.Seq != rows[0].Seq {
					return llama.ErrNoKVSlot
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newFaultyEngine(t, setup{}, fail)
			for i, got := range mustGenerate(t, e, g).Completions {
				if want := naive(t, m, g, i); !cmp.Equal(got, want) {
					t.Errorf("candidate %d: %s", i, cmp.Diff(want, got))
				}
			}
			if e.Stats().NoSlotSteps == 0 {
				t.Error("nothing failed")
			}
		})
	}
}

func TestNoSlotForOneRowFailsOnlyItsGeneration(t *testing.T) {
	var full atomic.Bool
	full.Store(true)
	e := newFaultyEngine(t, setup{}, func(int, []core.Row) error {
		if full.Load() {
			return llama.ErrNoKVSlot
		}
		return nil
	})
	g := greedy(tokenize(t, e.model, story), 2, 5)
	r, err := generate(t.Context(), e, g)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range r.Completions {
		if c.Finish != generation.FinishError || !errors.Is(c.Err, ErrModel) || !errors.Is(c.Err, llama.ErrNoKVSlot) {
			t.Errorf("candidate %d: %+v", i, c)
		}
	}
	full.Store(false)
	mustGenerate(t, e, g)
}

// nanLogits is a backend whose logits are NaN while poisoned is set.
type nanLogits struct {
	backend
	poisoned *atomic.Bool
	cleared  *atomic.Int32
}

func (b nanLogits) Logits(i int) ([]float32, error) {
	row, err := b.backend.Logits(i)
	if err == nil && b.poisoned.Load() {
		row = slices.Repeat([]float32{float32(math.NaN())}, len(row))
	}
	return row, err
}

func (b nanLogits) Clear(zero bool) error {
	if zero {
		b.cleared.Add(1)
	}
	return b.backend.Clear(zero)
}

// A context with non-finite cells is cleared as soon as it is idle, and nothing reuses them.
func TestNonFiniteCellsAreNotCached(t *testing.T) {
	var poisoned atomic.Bool
	var cleared atomic.Int32
	e := newTestEngine(t, setup{wrap: func(b backend) backend { return nanLogits{b, &poisoned, &cleared} }})
	g := greedy(tokenize(t, e.model, story), 2, 5)
	if mustGenerate(t, e, g); cleared.Load() != 0 {
		t.Fatal("a sound context was cleared")
	}
	poisoned.Store(true)
	r, err := generate(t.Context(), e, g)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range r.Completions {
		if c.Finish != generation.FinishError || !errors.Is(c.Err, llama.ErrCompute) {
			t.Errorf("candidate %d: %+v", i, c)
		}
	}
	poisoned.Store(false)
	eventually(t, "the context is cleared", func() bool { return cleared.Load() == 1 })
	if again := mustGenerate(t, e, g); again.CachedTokens != 0 || cleared.Load() != 1 {
		t.Errorf("%d tokens were reused, the context was cleared %d times; want 0 and 1", again.CachedTokens, cleared.Load())
	}
}

// nanAfterFirst makes the logits after the first row of a step NaN while enabled.
type nanAfterFirst struct {
	nanLogits
}

func (b nanAfterFirst) Logits(i int) ([]float32, error) {
	if i == 0 {
		return b.backend.Logits(i)
	}
	return b.nanLogits.Logits(i)
}

// A busy context would never be idle. So new requests wait until the running ones have ended
// and the context is cleared.
func TestNaNContextDrainsBeforeReuse(t *testing.T) {
	var poisoned atomic.Bool
	var cleared atomic.Int32
	hold, held, resume := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	e := newTestEngine(t, setup{wrap: func(b backend) backend {
		return &faulty{backend: nanAfterFirst{nanLogits{b, &poisoned, &cleared}}, decode: func([]core.Row) error {
			select {
			case <-hold:
				close(held)
				<-resume
			default:
			}
			return nil
		}}
	}})
	long := greedy(tokenize(t, e.model, story), 1, 300)
	long.IgnoreEnd = true
	short := greedy(tokenize(t, e.model, "something else"), 1, 4)
	want := naive(t, e.model, long, 0)

	var running sync.WaitGroup
	running.Go(func() {
		if r, err := generate(t.Context(), e, long); err != nil || !cmp.Equal(r.Completions[0], want) {
			t.Errorf("what ran before: %+v, %v", r, err)
		}
	})
	eventually(t, "the first one runs", func() bool { return e.Stats().GeneratedTokens > 0 })
	poisoned.Store(true)
	if r, err := generate(t.Context(), e, short); err != nil || !errors.Is(r.Completions[0].Err, llama.ErrCompute) {
		t.Fatalf("%+v, %v", r, err)
	}
	poisoned.Store(false)
	hold <- struct{}{} // so that the next request comes while much work is left
	<-held
	running.Go(func() {
		r, err := generate(t.Context(), e, short)
		if err != nil || r.Completions[0].Err != nil || r.CachedTokens != 0 || cleared.Load() != 1 {
			t.Errorf("%+v, %v, cleared %d times", r, err, cleared.Load())
		}
	})
	eventually(t, "the next one waits", func() bool { return e.inboxLen() == 1 })
	close(resume)
	running.Wait()
}

func TestFailedStepEndsOnlyItsGenerations(t *testing.T) {
	for _, failure := range fewer([]error{llama.ErrCompute, llama.ErrAllocation, llama.ErrInvalidBatch}, 1) {
		for _, arch := range architectures {
			t.Run(fmt.Sprintf("%s/%v", arch, failure), func(t *testing.T) {
				m := testModel(t, arch)
				e := newTestEngine(t, setup{arch: arch, wrap: func(b backend) backend {
					step := 0
					f := &faulty{backend: b}
					f.decode = func(rows []core.Row) error {
						if step++; step != 6 {
							return nil
						}
						// As in llama.cpp, a part of the batch stays in the cache.
						if err := b.Decode(rows[:len(rows)/2]); err != nil {
							t.Error(err)
						}
						return failure
					}
					return f
				}})
				g := sampled(tokenize(t, m, story), count(4, 2), count(12, 6), 5)
				g.IgnoreEnd = true
				r, err := generate(t.Context(), e, g)
				if err != nil {
					t.Fatal(err)
				}
				for i, c := range r.Completions {
					if c.Finish != generation.FinishError || !errors.Is(c.Err, ErrModel) || !errors.Is(c.Err, failure) || len(c.Tokens) > 0 {
						t.Errorf("candidate %d: %+v", i, c)
					}
				}
				for i, got := range mustGenerate(t, e, g).Completions {
					if want := naive(t, reference(t, arch), g, i); !cmp.Equal(got, want) {
						t.Errorf("after the failure, candidate %d: %s", i, cmp.Diff(want, got))
					}
				}
				if s := e.Stats(); s.FailedSteps != 1 || s.Failed != 1 {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

func TestLostSequenceIsComputedAgain(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	prompt := tokenize(t, m, story)
	step := 0
	e := newTestEngine(t, setup{wrap: func(b backend) backend {
		return &faulty{backend: b, decode: func([]core.Row) error {
			if step++; step < 10 {
				return nil
			}
			if step == 10 { // the cached sequence is damaged with the step
				if err := b.Apply(core.Op{Kind: core.OpRemove, Seq: 0, Pos: 5}); err != nil {
					t.Error(err)
				}
				return llama.ErrCompute
			}
			return nil
		}}
	}})
	mustGenerate(t, e, greedy(prompt, 1, 4))
	step = 9
	if r, err := generate(t.Context(), e, greedy(tokenize(t, m, "something else"), 1, 4)); err != nil || r.Completions[0].Err == nil {
		t.Fatalf("%+v, %v: was to fail", r, err)
	}
	again := mustGenerate(t, e, greedy(prompt, 1, 4))
	if again.CachedTokens != 0 {
		t.Errorf("%d tokens of a lost sequence were reused", again.CachedTokens)
	}
	on := reference(t, synth.Qwen3)
	if want, got := naive(t, on, greedy(prompt, 1, 4), 0), again.Completions[0]; !sameAnswers(t, on, prompt, want, got) {
		t.Error(cmp.Diff(want, got))
	}
}

func TestFailedMemoryOperationClearsContext(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	var f *faulty
	e := newTestEngine(t, setup{wrap: func(b backend) backend { f = &faulty{backend: b}; return f }})
	g := sampled(tokenize(t, m, story), 4, 12, 5)
	g.IgnoreEnd = true
	mustGenerate(t, e, greedy(tokenize(t, m, "abc"), 1, 4))
	before := e.Stats()
	f.mu.Lock()
	f.copy = func() error { return errInjected }
	f.mu.Unlock()
	r, err := generate(t.Context(), e, g)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range r.Completions {
		if !errors.Is(c.Err, ErrModel) || !errors.Is(c.Err, errInjected) {
			t.Errorf("candidate %d: %+v", i, c)
		}
	}
	f.mu.Lock()
	f.copy = nil
	f.mu.Unlock()
	if s := e.Stats(); s.UsedCells != 0 || s.GeneratedTokens <= before.GeneratedTokens {
		t.Errorf("%+v", s)
	}
	for i, got := range mustGenerate(t, e, g).Completions {
		if want := naive(t, m, g, i); !cmp.Equal(got, want) {
			t.Errorf("after the failure, candidate %d: %s", i, cmp.Diff(want, got))
		}
	}
}

func TestDeadGrammarEndsOnlyItsCandidate(t *testing.T) {
	e := newTestEngine(t, setup{})
	g := sampled(tokenize(t, e.model, story), 12, 4, 1)
	// A text that starts with a needs a suppressed token.
	g.Grammar = `root ::= "a!" | "b?"`
	v := e.model.Vocab()
	for token := range llama.Token(v.Size()) {
		if strings.Contains(string(v.Piece(token, true)), "!") {
			g.Suppress = append(g.Suppress, token)
		}
	}
	r, err := generate(t.Context(), e, g)
	if err != nil {
		t.Fatal(err)
	}
	dead, fine := 0, 0
	for i, c := range r.Completions {
		switch {
		case c.Text == "a" && c.Finish == generation.FinishError && errors.Is(c.Err, llama.ErrGrammarDead):
			dead++
		case c.Text == "b?" && c.Finish == generation.FinishStop && c.Err == nil:
			fine++
		default:
			t.Errorf("candidate %d: %+v", i, c)
		}
	}
	if dead == 0 || fine == 0 {
		t.Errorf("%d dead, %d fine", dead, fine)
	}
}

func TestCloseWhileBusyReturnsErrClosed(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{sequences: 4, outputs: 4})
	g := greedy(tokenize(t, m, story), 3, 600)
	g.IgnoreEnd = true
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if _, err := generate(context.Background(), e, g); !errors.Is(err, ErrClosed) {
				t.Errorf("error %v, want ErrClosed", err)
			}
		})
	}
	eventually(t, "busy", func() bool { s := e.Stats(); return s.Running > 0 && s.Waiting > 0 && s.Admitted == 18 })
	for range 2 {
		wg.Go(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := e.Admit(1, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("Admit: %v", err)
	}
	if s := e.Stats(); s.Admitted != 0 {
		t.Errorf("%+v", s)
	}
}

func TestModelCanBeFreedAfterClose(t *testing.T) {
	m, err := llama.New(testModel(t, synth.Qwen3).Path())
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(t.Context(), []Context{{Model: m, Options: []llama.ContextOption{llama.SetContext(256), llama.SetMaxSequences(4)}}}, Config{}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g := greedy(tokenize(t, m, story), 2, 50)
	g.IgnoreEnd = true
	done := make(chan error)
	go func() {
		_, err := generate(ctx, e, g)
		done <- err
	}()
	eventually(t, "running", func() bool { return e.Stats().Steps > 2 })
	cancel()
	<-done
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := m.Free(); err != nil {
		t.Error(err)
	}
}

func TestInvalidConfigNamesField(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	options := []llama.ContextOption{llama.SetContext(256), llama.SetBatch(64), llama.SetMaxSequences(4)}
	for field, cfg := range map[string]Config{
		"BatchTokens":  {Policy: Policy{BatchTokens: 65}},
		"MaxSequences": {Policy: Policy{MaxSequences: 5}},
		"MaxRunning":   {Policy: Policy{MaxRunning: -1}},
		"PrefillChunk": {Policy: Policy{PrefillChunk: 65}},
		"QueueLimit":   {QueueLimit: -1},
		"QueueTime":    {QueueTime: -1},
	} {
		if _, err := New(t.Context(), []Context{{Model: m, Options: options}}, cfg, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
