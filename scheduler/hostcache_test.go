package scheduler

import (
	"errors"
	"fmt"
	"slices"
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

// conversations are the turns of several agents with a common beginning. Each turn continues
// the one before it.
func conversations(t *testing.T, agents, turns int) [][][]llama.Token {
	m := testModel(t, synth.Qwen3)
	list := make([][][]llama.Token, agents)
	for a := range list {
		text := story[:60] + fmt.Sprint(" agent ", a, ": ")
		for turn := range turns {
			text += fmt.Sprint(turn, story[5*a:5*a+60])
			list[a] = append(list[a], tokenize(t, m, text))
		}
	}
	return list
}

// Agents take turns, and their histories do not fit the KV cache together. The answers equal
// the answers of a larger cache, and hardly any token is computed twice.
func TestEvictedCellsAreLoadedFromHostCache(t *testing.T) {
	talks := conversations(t, 6, 4)
	tokens := count(6, 3)
	run := func(s setup) (*Engine, []generation.Completion) {
		e := newTestEngine(t, s)
		var answers []generation.Completion
		for turn := range talks[0] {
			for a := range talks {
				answers = append(answers, mustGenerate(t, e, greedy(talks[a][turn], 2, tokens)).Completions[1])
			}
		}
		return e, answers
	}
	all, want := run(setup{cells: 4096, onCPU: true})
	small, without := run(setup{cells: 512, onCPU: true})
	host, with := run(setup{cells: 512, cfg: Config{Policy: Policy{HostCells: 4096}}})
	for i := range want {
		prompt := talks[i%len(talks)][i/len(talks)]
		if !sameAnswers(t, all.model, prompt, want[i], with[i]) {
			t.Errorf("an answer with host memory differs from that in a large cache: %s", cmp.Diff(want[i], with[i]))
		}
		if !sameAnswers(t, all.model, prompt, want[i], without[i]) {
			t.Errorf("an answer in a small cache differs from that in a large one: %s", cmp.Diff(want[i], without[i]))
		}
	}
	least, most, got := all.Stats().PrefillTokens, small.Stats().PrefillTokens, host.Stats()
	if got.PrefillTokens > least+(most-least)/10 || most < 2*least {
		t.Errorf("%d tokens computed; %d in a large cache, %d in a small one without host memory", got.PrefillTokens, least, most)
	}
	if got.SavedCells == 0 || got.LoadedCells == 0 || got.HostUsed == 0 || got.HostCells != 4096 {
		t.Errorf("%+v", got)
	}
}

// This test is for the race detector: two contexts under load.
func TestHostCacheServesManyAtOnce(t *testing.T) {
	talks := conversations(t, 10, 3)
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{cells: 512, contexts: 2, cfg: Config{Policy: Policy{HostCells: 2048}}})
	var wg sync.WaitGroup
	for _, turns := range talks {
		wg.Go(func() {
			for _, prompt := range slices.Concat(turns, turns, turns) { // evicted prefixes are needed again
				g := greedy(prompt, 2, 6)
				r, err := generate(t.Context(), e, g)
				if err != nil {
					t.Error(err)
					return
				}
				if diff := cmp.Diff(naive(t, m, g, 0).Text, r.Completions[0].Text); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	wg.Wait()
	// The evicted cells depend on the order of requests. Agents that take turns evict each
	// other's cells and need their own again.
	for range 3 {
		for _, turns := range talks {
			mustGenerate(t, e, greedy(turns[len(turns)-1], 2, 6))
		}
	}
	if s := e.Stats(); s.SavedCells == 0 || s.LoadedCells == 0 {
		t.Errorf("%d cells were saved and %d loaded", s.SavedCells, s.LoadedCells)
	}
}

// failingLoad is a backend that cannot load saved cells.
type failingLoad struct {
	backend
	fail atomic.Bool
}

func (f *failingLoad) Apply(o core.Op) error {
	if o.Kind == core.OpLoad && f.fail.Load() {
		return errInjected
	}
	return f.backend.Apply(o)
}

// A failed load clears the context and its blocks. The engine continues.
func TestFailedLoadEndsOnlyTheGeneration(t *testing.T) {
	talks := conversations(t, 6, 4)
	var f *failingLoad
	e := newTestEngine(t, setup{cells: 256, cfg: Config{Policy: Policy{HostCells: 1024}}, wrap: func(b backend) backend {
		f = &failingLoad{backend: b}
		return f
	}})
	for _, turns := range talks {
		mustGenerate(t, e, greedy(turns[2], 1, 4))
	}
	if e.Stats().HostUsed == 0 {
		t.Fatal("nothing was saved")
	}
	f.fail.Store(true)
	r, err := generate(t.Context(), e, greedy(talks[0][3], 1, 4))
	if err != nil || !errors.Is(r.Completions[0].Err, ErrModel) || !errors.Is(r.Completions[0].Err, errInjected) {
		t.Errorf("%+v, %v", r, err)
	}
	if used := e.Stats().HostUsed; used != 0 {
		t.Errorf("%d cells in host memory after the context was cleared", used)
	}
	mustGenerate(t, e, greedy(talks[0][3], 1, 4))
}

func TestInvalidHostCellsAreRefused(t *testing.T) {
	options := []llama.ContextOption{llama.SetContext(256), llama.SetBatch(64), llama.SetMaxSequences(4)}
	for name, c := range map[string]struct {
		arch string
		cfg  Config
		want error
	}{
		"a sliding window":       {synth.GPTOSS, Config{Policy: Policy{HostCells: 100}}, ErrNoHostCache},
		"a recurrent state":      {synth.Qwen35, Config{Policy: Policy{HostCells: 100}}, ErrNoHostCache},
		"isolated":               {synth.Qwen3, Config{Policy: Policy{HostCells: 100}, Isolate: true}, nil},
		"without a cache":        {synth.Qwen3, Config{Policy: Policy{HostCells: 100, NoPrefixCache: true}}, nil},
		"a negative number":      {synth.Qwen3, Config{Policy: Policy{HostCells: -1}}, nil},
		"no sequence id is left": {synth.Qwen3, Config{Policy: Policy{HostCells: 100, MaxSequences: 4}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := New(t.Context(), []Context{{Model: testModel(t, c.arch), Options: options}}, c.cfg, zerolog.Nop())
			if err == nil {
				t.Error(e.Close())
				t.Fatal("it was accepted")
			}
			if c.want != nil && !errors.Is(err, c.want) {
				t.Error(err)
			}
		})
	}
}

// The answers equal those with a prefix cache.
func TestNoPrefixCacheComputesEveryPrompt(t *testing.T) {
	talks := conversations(t, 2, 2)
	run := func(cfg Config) (Stats, []string) {
		e := newTestEngine(t, setup{cfg: cfg})
		var texts []string
		for _, prompt := range [][]llama.Token{talks[0][0], talks[0][1], talks[0][1], talks[1][0]} {
			r := mustGenerate(t, e, greedy(prompt, 3, 6))
			if cfg.NoPrefixCache && r.CachedTokens != 0 {
				t.Errorf("%d tokens of a prompt were found", r.CachedTokens)
			}
			texts = append(texts, r.Completions[2].Text)
		}
		return e.Stats(), texts
	}
	with, want := run(Config{})
	without, got := run(Config{Policy: Policy{NoPrefixCache: true}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if without.CachedTokens != 0 || without.PrefillTokens != without.PromptTokens || with.CachedTokens == 0 {
		t.Errorf("%d of %d tokens computed and %d found; with the cache %d were", without.PrefillTokens, without.PromptTokens, without.CachedTokens, with.CachedTokens)
	}
}
