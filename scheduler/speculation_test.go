package scheduler

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/generation"
)

// canSpeculate reports whether an architecture's memory can remove rejected tokens.
func canSpeculate(arch string) bool { return arch != synth.GPTOSS && arch != synth.Qwen35 }

// With speculation the tokens, counts and finish reasons are the same, in fewer steps.
func TestSpeculationOnlySavesSteps(t *testing.T) {
	for _, arch := range architectures {
		t.Run(arch, func(t *testing.T) { speculationOnlySavesSteps(t, arch, true) })
	}
	t.Run("with forced tokens", func(t *testing.T) { speculationOnlySavesSteps(t, synth.Qwen3, false) })
}

func speculationOnlySavesSteps(t *testing.T, arch string, noForced bool) {
	prompt := tokenize(t, testModel(t, arch), story)
	with, without := newScribes(t, arch, prompt, Config{Policy: Policy{DraftRows: 16, MaxRunning: 8}, NoForcedTokens: noForced})
	for name, g := range map[string]generation.Request{
		"greedy":              constrained(greedy(prompt, 1, 400)),
		"without constraints": greedy(prompt, 1, 400),
		"sampled":             constrained(sampled(prompt, 3, 400, 7)),
		"as many as may run":  constrained(sampled(prompt, 8, 400, 50)),
		"cut off":             constrained(sampled(prompt, 2, 90, 90)),
		"cut off early":       constrained(sampled(prompt, 2, 3, 90)),
	} {
		t.Run(name, func(t *testing.T) {
			a, b := mustGenerate(t, with, g), mustGenerate(t, without, g)
			if diff := cmp.Diff(b.Completions, a.Completions); diff != "" {
				t.Error(diff)
			}
		})
	}
	s, plain := with.Stats(), without.Stats()
	t.Logf("%d of %d draft tokens accepted, %d steps instead of %d", s.AcceptedTokens, s.DraftTokens, s.Steps, plain.Steps)
	if plain.DraftTokens != 0 || s.GeneratedTokens != plain.GeneratedTokens {
		t.Errorf("%d draft tokens, want none, generated %d and %d", plain.DraftTokens, s.GeneratedTokens, plain.GeneratedTokens)
	}
	switch {
	case !canSpeculate(arch):
		if s.DraftTokens != 0 {
			t.Errorf("%d draft tokens, which this memory cannot remove", s.DraftTokens)
		}
	case s.AcceptedTokens*4 < s.DraftTokens || s.Steps*5 > plain.Steps*4:
		t.Errorf("%d of %d draft tokens accepted, %d steps with them, %d without", s.AcceptedTokens, s.DraftTokens, s.Steps, plain.Steps)
	}
}

func TestDraftsStopAtEndTokens(t *testing.T) {
	e := newTestEngine(t, setup{outputs: 8, cfg: Config{Policy: Policy{DraftRows: 8}}})
	got := e.workers[0].coreConfig.EndTokens
	for token := range llama.Token(e.model.Vocab().Size()) {
		if ends := e.model.Vocab().IsEOG(token); ends != slices.Contains(got, token) {
			t.Errorf("token %d ends a turn: %t, and may be drafted: %t", token, ends, ends)
		}
	}
	if len(got) == 0 {
		t.Error("no token ends a turn")
	}
}

// The logits after accepted, rejected and forced tokens equal the logits of the completion
// computed alone.
func TestLogitsAfterDrafts(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	prompt := tokenize(t, m, story)
	var r *recorder
	e := newTestEngine(t, setup{
		cells: 1000, sequences: 6, outputs: 8, batch: 20, cfg: Config{Policy: Policy{DraftRows: 8, MaxRunning: 4}},
		wrap: func(b backend) backend { r = newRecorder(b); return newScribe(t, m, r, len(prompt)) },
	})
	for turn := range count(3, 2) {
		mustGenerate(t, e, constrained(sampled(prompt, 1+2*turn, 400, uint32(turn))))
	}
	s := e.Stats()
	if s.AcceptedTokens == 0 || s.AcceptedTokens == s.DraftTokens || s.ForcedTokens == 0 {
		t.Errorf("want accepted, rejected and forced tokens: %+v", s)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	compareLogits(t, synth.Qwen3, r.read)
}

func TestDraftRowsAboveOutputsAreRefused(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	_, err := New(t.Context(), []Context{{Model: m, Options: []llama.ContextOption{
		llama.SetContext(512), llama.SetMaxSequences(4), llama.SetMaxOutputs(4),
	}}}, Config{Policy: Policy{DraftRows: 5}}, zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), "DraftRows is 5, the context allows 0 to 4") {
		t.Error(err)
	}
}
