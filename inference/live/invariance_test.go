package live

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"agentd/agent"
	"agentd/inference/load"
	"agentd/llama"
	"agentd/protocol"
	"agentd/scheduler"
)

func TestReproducibleAnswersHaveTheSameBytesUnderLoad(t *testing.T) {
	if !llama.SharedAttention() {
		t.Skip("ggml computes on this machine")
	}
	for name, path := range map[string]string{"default": "", "q8_0": quantized(t)} {
		s, err := openVersion(t.Context(), new(Service), load.Config{
			Path: path, Device: "cpu", Contexts: 2, Reproducible: true, Log: zerolog.Nop(), Agent: agent.Config{MaxNewTokens: 128, Constrain: "on"},
			Scheduler: scheduler.Config{QueueLimit: decisionsCompared, Policy: scheduler.Policy{MaxRunning: width, DraftRows: 4}},
		})
		if err != nil {
			t.Fatal(err)
		}
		inputs := conversations(t, s)[:24]
		want := inTurn(t, s, inputs)
		for i, got := range together(t, s, inputs) {
			if text(got) != text(want[i]) {
				t.Errorf("%s, decision %d: %s alone, %s under load", name, i, text(want[i]), text(got))
			}
		}
		stats := s.Engine.Stats()
		if f := s.Info; f.Isolates || f.Variance != "" || f.Contexts != 2 || stats.DraftTokens == 0 || stats.CachedTokens == 0 {
			t.Errorf("%s: %+v, %+v", name, f, stats)
		}
		in := inputs[0]
		in.NumOutputs, in.ExtraKeys = 2, protocol.Raw(`{"inference_mode":true,"candidates":{"distinct":true}}`)
		if _, err := s.Decide(t.Context(), &protocol.AgentRequest{RequestID: "d", Inputs: []protocol.AgentInput{in}}); err != nil {
			t.Errorf("%s: distinct candidates: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
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
