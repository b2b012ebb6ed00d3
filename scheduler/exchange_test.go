package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// taken is a backend that keeps the blocks which other contexts got.
type taken struct {
	backend
	mu     sync.Mutex
	states []*llama.State
}

func (b *taken) Take(block core.BlockID) *llama.State {
	s := b.backend.Take(block)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.states = append(b.states, s)
	return s
}

// freed reports whether there are blocks, and all are freed.
func (b *taken) freed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.states {
		if s.Size() > 0 {
			return false
		}
	}
	return len(b.states) > 0
}

// alike are generations whose prompts have a long beginning in common.
func alike(t *testing.T, n int) []generation.Request {
	m := testModel(t, synth.Qwen3)
	list := make([]generation.Request, n)
	for i := range list {
		list[i] = greedy(tokenize(t, m, strings.Repeat(story, 5)+fmt.Sprint(" Robot ", i, story[:10+i])), 2, 6)
	}
	return list
}

// submitAll submits generations all at once.
func submitAll(ctx context.Context, t *testing.T, e *Engine, list []generation.Request) []*Handle {
	t.Helper()
	n := 0
	for _, g := range list {
		n += g.N
	}
	a, err := e.Admit(n)
	if err != nil {
		t.Fatal(err)
	}
	return a.Submit(ctx, list)
}

func checkNaive(t *testing.T, m *llama.Model, list []generation.Request, handles []*Handle) {
	t.Helper()
	for i, h := range handles {
		r, err := h.Wait(t.Context())
		if err != nil {
			t.Error(err)
			continue
		}
		for c, got := range r.Completions {
			if want := naive(t, m, list[i], c); !sameAnswers(t, m, list[i].Prompt, want, got) {
				t.Errorf("request %d candidate %d: %s", i, c, cmp.Diff(want, got))
			}
		}
	}
}

func TestContextsComputeCommonPrefixOnce(t *testing.T) {
	list := alike(t, 8)
	run := func(contexts, minCopy int, host int) Stats {
		var backs []*taken
		e := newTestEngine(t, setup{contexts: contexts, cfg: Config{minCopy: minCopy, Policy: Policy{HostCells: host}}, wrapEach: func(_ int, b backend) backend {
			backs = append(backs, &taken{backend: b})
			return backs[len(backs)-1]
		}})
		checkNaive(t, e.model, list, submitAll(t.Context(), t, e, list))
		for _, b := range backs {
			if eventually(t, "idle", func() bool { return e.Stats().Requests == 0 }); len(b.states) > 0 && !b.freed() {
				t.Error("a copied block is still there")
			}
		}
		nothingLeft(t, e)
		return e.Stats()
	}
	one, apart := run(1, 0, 0), run(3, 1<<20, 0)
	if apart.CopiedCells != 0 || apart.PrefillTokens < one.PrefillTokens+2*uint64(len(list)*prefixBlock) {
		t.Fatalf("contexts without copies computed %d prompt tokens, one context %d; the prompts have too little in common", apart.PrefillTokens, one.PrefillTokens)
	}
	for name, host := range map[string]int{"without host cache": 0, "with host cache": 1024} {
		t.Run(name, func(t *testing.T) {
			three := run(3, prefixBlock, host)
			if most := one.PrefillTokens + uint64(len(list)*prefixBlock); three.PrefillTokens > most || three.CopiedCells == 0 {
				t.Errorf("three contexts computed %d prompt tokens, at most %d are new; %d were copied", three.PrefillTokens, most, three.CopiedCells)
			}
		})
	}
}

// The prompt that another context waits for fails in its prefill.
func TestWaitingContextComputesPrefixThatFailed(t *testing.T) {
	for name, failure := range map[string]error{"a failed step": llama.ErrCompute, "a lost device": llama.ErrLost} {
		t.Run(name, func(t *testing.T) {
			steps := 0
			e := newTestEngine(t, setup{contexts: 2, cfg: Config{minCopy: prefixBlock}, wrapEach: func(i int, b backend) backend {
				return &faulty{backend: b, decode: func([]core.Row) error {
					if i > 0 {
						return nil
					}
					if steps++; steps == 2 {
						return failure
					}
					return nil
				}}
			}})
			list := alike(t, 4)
			checkNaive(t, e.model, list, submitAll(t.Context(), t, e, list))
			nothingLeft(t, e)
		})
	}
}

// A context waits for a prefix that another one computes. Its requests can end meanwhile.
func TestRequestThatWaitsForPrefixEndsAtOnce(t *testing.T) {
	for name, closes := range map[string]bool{"its caller leaves": false, "the engine is closed": true} {
		t.Run(name, func(t *testing.T) {
			hold := make(chan struct{})
			var source *taken
			e := newTestEngine(t, setup{contexts: 2, cfg: Config{minCopy: prefixBlock}, wrapEach: func(i int, b backend) backend {
				if i > 0 {
					return b
				}
				source = &taken{backend: &faulty{backend: b, decode: func([]core.Row) error {
					<-hold
					return nil
				}}}
				return source
			}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			handles := submitAll(t.Context(), t, e, alike(t, 2))
			eventually(t, "the second one waits", func() bool { return e.Contexts()[1].Waiting == 2 })
			ended := make(chan error)
			go func() {
				_, err := handles[1].Wait(ctx)
				ended <- err
			}()
			if closes {
				go e.Close()
			} else {
				cancel()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				eventually(t, "it waits no more", func() bool { return e.Contexts()[1].Waiting == 0 })
			}
			close(hold)
			_, err := handles[0].Wait(t.Context())
			if closes {
				if other := <-ended; !errors.Is(err, ErrClosed) || !errors.Is(other, ErrClosed) {
					t.Error(err, other)
				}
			} else if err != nil {
				t.Error(err)
			}
			nothingLeft(t, e)
			if !closes && !source.freed() {
				t.Error("the block that nobody waits for is not freed")
			}
		})
	}
}

// A conversation goes on where there is less to do, with a copy of its history.
func TestConversationMovesWithItsPrefix(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{contexts: 2, cfg: Config{minCopy: prefixBlock}})
	turn := greedy(tokenize(t, m, strings.Repeat(story, 2)), 1, 6)
	mustGenerate(t, e, turn)
	busy := func(load int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.workers[0].load += load
	}
	busy(1000)
	defer busy(-1000)
	turn.Prompt = append(turn.Prompt, tokenize(t, m, story[:30])...)
	r := mustGenerate(t, e, turn)
	if computed := int(e.Contexts()[1].PrefillTokens); computed == 0 || computed != len(turn.Prompt)-r.CachedTokens || computed > len(turn.Prompt)/2 {
		t.Errorf("%d of %d tokens were found, the other context computed %d", r.CachedTokens, len(turn.Prompt), computed)
	}
	if want := naive(t, m, turn, 0); !sameAnswers(t, m, turn.Prompt, want, r.Completions[0]) {
		t.Error(cmp.Diff(want, r.Completions[0]))
	}
}

// Prompts share beginnings of all lengths, so contexts wait for each other. Some callers leave.
func TestContextsThatWaitForEachOtherGoOn(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	r := rand.New(rand.NewPCG(1, 2))
	e := newTestEngine(t, setup{contexts: 3, cells: 1024, cfg: Config{minCopy: prefixBlock}})
	words := []string{story[:40], story[20:70], story[50:]}
	var wg sync.WaitGroup
	for range 6 {
		var list []generation.Request
		for range 12 {
			text := ""
			for range 1 + r.IntN(5) {
				text += words[r.IntN(len(words))]
			}
			list = append(list, greedy(tokenize(t, m, text), 1, 4))
		}
		leaves := r.IntN(len(list))
		handles := submitAll(t.Context(), t, e, list)
		wg.Go(func() {
			for i, h := range handles {
				ctx, cancel := context.WithCancel(t.Context())
				if i == leaves {
					cancel()
				}
				got, err := h.Wait(ctx)
				cancel()
				switch {
				case i == leaves && errors.Is(err, context.Canceled):
				case err != nil:
					t.Error(err)
				case i%4 == 0:
					if want := naive(t, m, list[i], 0); !sameAnswers(t, m, list[i].Prompt, want, got.Completions[0]) {
						t.Error(cmp.Diff(want, got.Completions[0]))
					}
				}
			}
		})
	}
	wg.Wait()
	if s := e.Stats(); s.CopiedCells == 0 {
		t.Error("nothing was copied")
	}
	nothingLeft(t, e)
}
