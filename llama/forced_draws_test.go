//go:build !race

package llama

import (
	"testing"

	"agentd/llama/synth"
)

// The random number of a token depends on its position only. So a text continues in the
// same way after sampled and after forced tokens.
func TestForcedTokensChangeNoDraws(t *testing.T) {
	m := shared(t, synth.Qwen3)
	cfg := SamplerConfig{Temperature: 1, TopK: 40, Seed: 3, Grammar: `root ::= "the room: " [a-z ]{40}`}
	row := func(i int) []float32 { return randomRow(m, uint64(i)) }
	for seed := range uint32(20) {
		cfg.Seed = seed
		helped, alone := newSampler(t, m, cfg), newSampler(t, m, cfg)
		list, _, err := helped.Force(nil)
		if err != nil || len(list) == 0 {
			t.Fatalf("%v, %v", list, err)
		}
		for _, tok := range list {
			if err := alone.Accept(tok); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 10 {
			if a, b := mustSample(t, helped, row(i)), mustSample(t, alone, row(i)); a != b {
				t.Fatalf("seed %d, draw %d: %d with forced tokens, %d without", seed, i, a, b)
			}
		}
	}
}
