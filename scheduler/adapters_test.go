package scheduler

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// adapterFile writes an adapter for the test model of qwen3.
func adapterFile(t testing.TB, seed uint64) string {
	t.Helper()
	spec, err := synth.Preset("tiny", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	spec.Type, spec.Small = "f32", true
	path := filepath.Join(t.TempDir(), fmt.Sprint(seed, ".gguf"))
	if err := synth.WriteAdapter(path, spec, synth.Adapter{Rank: 4, Alpha: 8, Seed: seed, Gain: 0.5}); err != nil {
		t.Fatal(err)
	}
	return path
}

// The oracle is the same prompt alone in a new context. A prefix of another adapter would change
// the tokens.
func TestAdaptersAnswerAsAloneInNewContext(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	files := []string{adapterFile(t, 1), adapterFile(t, 2)}
	var requests []generation.Request
	var want []generation.Completion
	alone := []*llama.Adapter{nil}
	for _, file := range files {
		a, err := m.NewAdapter(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := a.Free(); err != nil {
				t.Error(err)
			}
		})
		alone = append(alone, a)
	}
	for _, talk := range conversations(t, 3, 3) {
		for _, prompt := range talk {
			for id, a := range alone {
				g := greedy(prompt, 2, 8)
				g.Adapter = core.AdapterID(id)
				requests, want = append(requests, g), append(want, naiveWith(t, m, a, g, 0))
			}
		}
	}
	different := 0
	for i := 0; i < len(want); i += 3 {
		if want[i].Text != want[i+1].Text && want[i+1].Text != want[i+2].Text {
			different++
		}
	}
	if different < len(want)/6 {
		t.Fatalf("only %d of %d prompts have different answers, which says little", different, len(want)/3)
	}
	for name, s := range map[string]setup{
		"one context":             {},
		"a small cache":           {cells: 300},
		"three contexts":          {contexts: 3, cells: 1024},
		"host memory":             {cells: 300, cfg: Config{Policy: Policy{HostCells: 4096}}},
		"speculative tokens":      {cfg: Config{Policy: Policy{DraftRows: 4}}},
		"each generation alone":   {cfg: Config{Isolate: true}},
		"no prefix cache at all":  {cfg: Config{Policy: Policy{NoPrefixCache: true}}},
		"few sequences at a time": {sequences: 3, outputs: 2},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestEngine(t, s)
			for i, file := range files {
				if id, err := e.AddAdapter(file); err != nil || id != core.AdapterID(i+1) {
					t.Fatalf("adapter %d: %v", id, err)
				}
			}
			for range 2 { // the second time with all prefixes cached
				var wg sync.WaitGroup
				for i := range requests {
					wg.Go(func() {
						r, err := generate(t.Context(), e, requests[i])
						if err != nil {
							t.Error(err)
							return
						}
						for _, c := range r.Completions {
							if !sameAnswers(t, m, requests[i].Prompt, want[i], c) {
								t.Errorf("request %d with adapter %d: %s", i, requests[i].Adapter, cmp.Diff(want[i], c))
							}
						}
					})
				}
				wg.Wait()
			}
			if e.Stats().AdapterTurns == 0 {
				t.Error("no context changed its adapter")
			}
		})
	}
}

func TestAdaptersComeAndGoUnderLoad(t *testing.T) {
	e := newTestEngine(t, setup{contexts: 2, cells: 512})
	prompt := tokenize(t, e.model, story[:100])
	want := mustGenerate(t, e, greedy(prompt, 1, 8)).Completions[0]
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := generate(t.Context(), e, greedy(prompt, 1, 8))
				if err != nil {
					t.Error(err)
					return
				}
				if !sameAnswers(t, e.model, prompt, want, r.Completions[0]) {
					t.Errorf("the answer of the model without an adapter changed: %s", cmp.Diff(want, r.Completions[0]))
				}
			}
		})
	}
	file := adapterFile(t, 3)
	var first string
	for i := range 10 {
		id, err := e.AddAdapter(file)
		if err != nil {
			t.Fatal(err)
		}
		if e.AdapterBytes(id) == 0 {
			t.Error("an adapter takes no memory")
		}
		g := greedy(prompt, 1, 8)
		g.Adapter = id
		text := mustGenerate(t, e, g).Completions[0].Text
		if i == 0 {
			first = text
		}
		if text != first || text == want.Text {
			t.Errorf("load %d: %q, first %q, without adapter %q", i, text, first, want.Text)
		}
		if err := e.RemoveAdapter(id); err != nil {
			t.Fatal(err)
		}
		if _, err := generate(t.Context(), e, g); !errors.Is(err, errNoAdapter) {
			t.Errorf("a removed adapter: %v", err)
		}
	}
	close(stop)
	wg.Wait()
	if err := e.RemoveAdapter(1); !errors.Is(err, errNoAdapter) {
		t.Errorf("removed twice: %v", err)
	}
	if _, err := e.AddAdapter("none.gguf"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := e.AddAdapter(file); err != nil { // Close frees it
		t.Fatal(err)
	}
}

func TestAdapterWithoutContextToTryItIsRefused(t *testing.T) {
	e := newTestEngine(t, setup{})
	e.workers[0].Options = []llama.ContextOption{llama.SetKVType("none")} // no context can be made
	if _, err := e.AddAdapter(adapterFile(t, 1)); !errors.Is(err, ErrContext) {
		t.Errorf("got %v", err)
	}
	e.workers[0].Options = nil
	if _, err := e.AddAdapter(adapterFile(t, 1)); err != nil {
		t.Error(err)
	}
}
