package scheduler

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"agentd/llama/synth"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

func TestAbortedGenerationHasItsTokensSoFar(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	prompt := tokenize(t, m, story)
	g := sampled(prompt, 2, 24, 1)
	g.IgnoreEnd, g.Scores = true, true
	whole := mustGenerate(t, newTestEngine(t, setup{model: m}), g)
	for name, contexts := range map[string]int{"one context": 1, "two contexts": 2} {
		t.Run(name, func(t *testing.T) {
			abort := make(chan struct{})
			var steps atomic.Int64
			var e *Engine
			asked := func() bool { // whether the worker has the command
				e.mu.Lock()
				defer e.mu.Unlock()
				return slices.ContainsFunc(e.workers, func(w *worker) bool { return len(w.inbox) > 0 })
			}
			e = newTestEngine(t, setup{model: m, contexts: contexts, wrap: func(b backend) backend {
				return &faulty{backend: b, decode: func([]core.Row) error {
					if steps.Add(1) == 8 {
						close(abort)
						for !asked() {
							runtime.Gosched()
						}
					}
					return nil
				}}
			}})
			g := g
			g.Abort = abort
			r, err := generate(t.Context(), e, g)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range r.Completions {
				want := whole.Completions[i]
				if c.Finish != generation.FinishPaused || !errors.Is(c.Err, generation.ErrPaused) || len(c.Tokens) == 0 || len(c.Tokens) >= len(want.Tokens) ||
					!slices.Equal(c.Tokens, want.Tokens[:len(c.Tokens)]) || len(c.Scores) != len(c.Tokens) {
					t.Errorf("completion %d: %s, %v of %v", i, c.Finish, c.Tokens, want.Tokens)
				}
			}
			g.Abort, g.Resume = nil, r // it goes on as after a pause
			for i, c := range mustGenerate(t, e, g).Completions {
				if !slices.Equal(c.Tokens, whole.Completions[i].Tokens) {
					t.Errorf("completion %d goes on with %v, want %v", i, c.Tokens, whole.Completions[i].Tokens)
				}
			}
		})
	}
}

func TestGenerationThatIsAbortedBeforeItStartsIsEmpty(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	g := sampled(tokenize(t, m, story), 1, 4, 1)
	abort := make(chan struct{})
	close(abort)
	g.Abort = abort
	r, err := generate(t.Context(), newTestEngine(t, setup{model: m}), g)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Completions[0]; c.Finish != generation.FinishPaused && len(c.Tokens) != 4 {
		t.Errorf("%+v", c)
	}
}

func TestStopTokenEndsACompletionAndStays(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{model: m})
	g := sampled(tokenize(t, m, story), 1, 24, 1)
	g.IgnoreEnd = true
	whole := mustGenerate(t, e, g).Completions[0].Tokens
	g.Stop = &generation.Stop{Tokens: []generation.Token{whole[7], whole[9]}}
	c := mustGenerate(t, e, g).Completions[0]
	n := slices.IndexFunc(whole, func(id generation.Token) bool { return slices.Contains(g.Stop.Tokens, id) }) + 1
	if c.Finish != generation.FinishStop || c.Stop != "" || !slices.Equal(c.Tokens, whole[:n]) {
		t.Errorf("%s %q: %v, want %v", c.Finish, c.Stop, c.Tokens, whole[:n])
	}
}

// Each token of a grammar has a score where all are sampled, and the text is one of the grammar.
func TestSampledTokensOfAGrammarAllHaveScores(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{model: m})
	g := sampled(tokenize(t, m, story), 3, 40, 1)
	g.Grammar, g.Scores, g.Top = `root ::= "{\"name\": \"go\", \"to\": \"" ("kitchen" | "cellar") "\"}"`, true, 5
	forced := 0
	for _, c := range mustGenerate(t, e, g).Completions {
		for _, s := range c.Scores {
			if s.Forced {
				forced++
			}
		}
	}
	if forced == 0 {
		t.Fatal("the grammar forces nothing")
	}
	g.Sample = true
	for i, c := range mustGenerate(t, e, g).Completions {
		if c.Finish != generation.FinishStop && c.Finish != generation.FinishLength {
			t.Errorf("completion %d: %s, %v", i, c.Finish, c.Err)
		}
		for k, s := range c.Scores {
			if s.Forced || math.IsNaN(float64(s.Logprob)) || len(s.Top) != 5 || s.Top[0].Logprob < s.Logprob || s.Masked < float64(s.Logprob)-1e-5 {
				t.Errorf("completion %d, token %d: %+v", i, k, s)
			}
		}
	}
}

func TestProgressHasTheScoresOfItsTokens(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{model: m})
	g := sampled(tokenize(t, m, story), 2, 16, 1)
	g.Scores, g.IgnoreEnd = true, true
	got := make([]generation.Completion, 2)
	g.Stream, g.Watch = true, func(e generation.Event) {
		i, ids, scores := e.Completion, e.Tokens, e.Scores
		if len(ids) != len(scores) {
			t.Errorf("%d tokens with %d scores", len(ids), len(scores))
		}
		got[i].Tokens, got[i].Scores = append(got[i].Tokens, ids...), append(got[i].Scores, scores...)
	}
	for i, c := range mustGenerate(t, e, g).Completions {
		for k, id := range c.Tokens {
			if got[i].Tokens[k] != id || got[i].Scores[k].Logprob != c.Scores[k].Logprob {
				t.Errorf("completion %d, token %d: %d with %+v, want %d with %+v", i, k, got[i].Tokens[k], got[i].Scores[k], id, c.Scores[k])
			}
		}
	}
}

func TestClearedCacheHasNoPrefix(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	for name, s := range map[string]setup{"one context": {model: m}, "two contexts": {model: m, contexts: 2}} {
		t.Run(name, func(t *testing.T) {
			e := newTestEngine(t, s)
			g := greedy(tokenize(t, m, story), 1, 4)
			mustGenerate(t, e, g)
			if r := mustGenerate(t, e, g); r.CachedTokens == 0 {
				t.Fatal("nothing is cached")
			}
			if all, err := e.ClearCache(nil); !all || err != nil {
				t.Errorf("%t, %v", all, err)
			}
			if r := mustGenerate(t, e, g); r.CachedTokens != 0 {
				t.Errorf("%d tokens are cached", r.CachedTokens)
			}
		})
	}
}
