package inference

import (
	"testing"

	"agentd/llama/synth"

	"github.com/rs/zerolog"
)

// TestStepsFitASmallContext: a context smaller than a step's tokens is served,
// with smaller steps.
func TestStepsFitASmallContext(t *testing.T) {
	path, err := synth.Tiny("", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	for name, batch := range map[string]int{"chosen": 0, "given": 1024} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), Options{
				Path: path, Device: "cpu", ContextLength: 256, BatchSize: batch, Threads: 1, QueueLimit: 8, MaxNewTokens: 16, Log: zerolog.Nop(),
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Facts().BatchSize; got != 256 {
				t.Errorf("steps of %d tokens, want 256", got)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
