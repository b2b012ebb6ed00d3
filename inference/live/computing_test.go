//go:build !race

// Tests of what is computed. The engine's concurrency is tested elsewhere, under the race detector.

package live

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd/inference/load"
	"agentd/llama"
	"agentd/protocol"
	"agentd/scheduler"
)

// rawOutputs are the texts of an answer's model calls, with what ended them.
func rawOutputs(t *testing.T, o protocol.AgentOutput) (list []string) {
	t.Helper()
	for _, s := range o.InternalSteps {
		step, err := protocol.DecodeInternalStep(s)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, step.OutputRaw)
	}
	return list
}

// TestForcedTokensChangeNoDecision: outputs have the same bytes and number of tokens. Only steps
// with several rows round differently.
func TestForcedTokensChangeNoDecision(t *testing.T) {
	with := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: 1}}})
	without := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: 1}, NoForcedTokens: true}})
	inputs := conversations(t, with)
	a, b := inTurn(t, with, inputs), inTurn(t, without, inputs)
	differ := 0
	for i := range a {
		x, y := rawOutputs(t, a[i]), rawOutputs(t, b[i])
		if !slices.Equal(x, y) {
			differ++
			t.Logf("decision %d: %s, and without forced tokens %s", i, x, y)
		}
	}
	s, plain := with.Engine.Stats(), without.Engine.Stats()
	t.Logf("%d of %d answers differ; %d of %d tokens forced; %d steps, without %d", differ, len(a), s.ForcedTokens, s.GeneratedTokens, s.Steps, plain.Steps)
	if differ > tolerated {
		t.Errorf("%d of %d answers differ", differ, len(a))
	}
	if s.ForcedTokens*4 < s.GeneratedTokens || plain.ForcedTokens > 0 {
		t.Errorf("%d of %d tokens were forced, without %d", s.ForcedTokens, s.GeneratedTokens, plain.ForcedTokens)
	}
}

// The cost of a search is counted in steps and rows, since a time is not a property of the code. Plain
// samples of the same inputs are the measure: docs/decisions/distinct-candidates.md.
func TestSearchNeedsAsManyRowsAsPlainSamples(t *testing.T) {
	s := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}}})
	const (
		plain, best, candidates = 0, 1, 8
	)
	var steps, rows [2]uint64
	paths, outcomes := 0, 0
	for i, in := range conversations(t, s)[:20] {
		in.NumOutputs = candidates
		decide(t, s, in) // the prompt is cached
		for way, keys := range [...]string{plain: `{"inference_mode":false}`, best: `{"inference_mode":true,"candidates":{"distinct":true}}`} {
			in.ExtraKeys = protocol.Raw(keys)
			before := s.Engine.Stats()
			outs, err := s.Decide(t.Context(), &protocol.AgentRequest{RequestID: fmt.Sprint(i), Inputs: []protocol.AgentInput{in}})
			if err != nil {
				t.Fatal(err)
			}
			after := s.Engine.Stats()
			steps[way] += after.Steps - before.Steps
			rows[way] += after.Rows - before.Rows
			for _, out := range outs {
				var step branchTold
				if len(out.InternalSteps) == 0 || json.Unmarshal(out.InternalSteps[0], &step) != nil || step.Elements.Generation.Candidate == nil {
					continue
				}
				outcomes++
				paths += step.Elements.Generation.Candidate.Paths
			}
		}
	}
	t.Logf("plain: %d steps of %d rows; most probable: %d steps of %d rows; %d decisions by %d token sequences", steps[plain], rows[plain], steps[best], rows[best], outcomes, paths)
	if rows[best] > rows[plain]+rows[plain]/4 || steps[best] > 3*steps[plain] {
		t.Errorf("%d steps of %d rows, plain samples take %d steps of %d rows", steps[best], rows[best], steps[plain], rows[plain])
	}
}

func TestReproducibleIsolatesWithOtherAttention(t *testing.T) {
	defer llama.SetSharedAttention(true)
	s := openDefault(t, load.Config{CPUAttention: load.GGML, Reproducible: true, Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}}})
	if f := s.Info; !f.Isolates || f.Contexts != 1 || !strings.Contains(f.SameBytes(), "each input alone: llama.cpp's own attention") {
		t.Errorf("%+v: %s", f, f.SameBytes())
	}
	inputs := conversations(t, s)[:12]
	want := inTurn(t, s, inputs)
	for i, got := range together(t, s, inputs) {
		if text(got) != text(want[i]) {
			t.Errorf("decision %d: %s alone, %s under load", i, text(want[i]), text(got))
		}
	}
	if cached := s.Engine.Stats().CachedTokens; cached > 0 {
		t.Errorf("%d tokens came from the cache", cached)
	}
}

// TestDefaultModelDecidesEquallyHoweverItIsComputed compares with decisions
// that were taken one after the other. Their accuracy does not matter here, see household eval.
func TestDefaultModelDecidesEquallyHoweverItIsComputed(t *testing.T) {
	s := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: 1}}})
	inputs := conversations(t, s)
	want := inTurn(t, s, inputs)

	compare := func(rule string, tolerated int, want []protocol.AgentOutput, decide func(t *testing.T) []protocol.AgentOutput) {
		t.Run(rule, func(t *testing.T) {
			list := differences(want, decide(t))
			t.Logf("%d of %d decisions differ", len(list), len(want))
			if len(list) > tolerated {
				for _, d := range list {
					t.Error(d)
				}
			}
		})
	}
	compare("again, when all of it is in the cache", 0, want, func(t *testing.T) []protocol.AgentOutput {
		return inTurn(t, s, inputs)
	})
	compare("when nothing is in the cache", tolerated/uncachedStride, want, func(t *testing.T) []protocol.AgentOutput {
		return uncached(t, inputs)
	})
	compare("with draft tokens", tolerated, want, func(t *testing.T) []protocol.AgentOutput {
		drafting := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: 1, DraftRows: 8}}})
		outs := inTurn(t, drafting, inputs)
		if s := drafting.Engine.Stats(); s.DraftTokens == 0 || s.AcceptedTokens < s.DraftTokens/4 {
			t.Errorf("%d of %d draft tokens were accepted", s.AcceptedTokens, s.DraftTokens)
		}
		return outs
	})
	wide := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}}})
	compare("sixteen at once", tolerated, want, func(t *testing.T) []protocol.AgentOutput {
		return together(t, wide, inputs)
	})
	compare("sixteen at once, when all of it is in the cache", tolerated, want, func(t *testing.T) []protocol.AgentOutput {
		return together(t, wide, inputs)
	})
	small := openDefault(t, load.Config{ContextLength: 4096, CacheRAM: 200, Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}}})
	together(t, small, inputs)
	compare("sixteen at once, when a part of it is in host memory", tolerated, want, func(t *testing.T) []protocol.AgentOutput {
		before := small.Engine.Stats()
		outs := together(t, small, inputs)
		after := small.Engine.Stats()
		if loaded, found := after.LoadedCells-before.LoadedCells, after.CachedTokens-before.CachedTokens; loaded < found/20 { // a tenth is usual; which prefixes are evicted depends on timing
			t.Errorf("%d of the %d tokens that were found came from host memory", loaded, found)
		}
		return outs
	})

	invariant := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}, Isolate: true}})
	some := inputs[:width] // nothing of them is cached
	compare("each by itself, when sixteen ask at once", 0, inTurn(t, invariant, some), func(t *testing.T) []protocol.AgentOutput {
		return together(t, invariant, some)
	})

	compare("sixteen at once, with a KV cache of 8 bits", toleratedIn8Bits, want, func(t *testing.T) []protocol.AgentOutput {
		return together(t, openDefault(t, load.Config{KVType: "q8_0", Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}}}), inputs)
	})
	compare("sixteen at once, with weights of 8 bits", toleratedIn8Bits, want, func(t *testing.T) []protocol.AgentOutput {
		return together(t, openDefault(t, load.Config{Path: quantized(t), Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}}}), inputs)
	})
}

// uncached takes some of the decisions, each with a cache that is new.
func uncached(t *testing.T, inputs []protocol.AgentInput) []protocol.AgentOutput {
	t.Helper()
	outs := make([]protocol.AgentOutput, len(inputs))
	for i := 0; i < len(inputs); i += uncachedStride {
		t.Run(fmt.Sprintf("decision %d", i), func(t *testing.T) {
			outs[i] = decide(t, openDefault(t, load.Config{ContextLength: 4096, Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: 1}}}), inputs[i])
			if found := cached(t, outs[i]); found != 0 {
				t.Errorf("%d tokens were in the cache", found)
			}
		})
	}
	return outs
}
