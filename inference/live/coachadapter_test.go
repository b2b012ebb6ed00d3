package live

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"agentd/coaching/backend"
	"agentd/inference/load"
	"agentd/llama/synth"
)

// TestCoachAnswersWithTheAdapterOfTheQuestion, as a model with the same weights does.
func TestCoachAnswersWithTheAdapterOfTheQuestion(t *testing.T) {
	spec := tinySpec(t)
	spec.Bias = map[string]float32{"</think>": 16, `"`: 12}
	adapter := synth.Adapter{Rank: 4, Alpha: 8, Seed: 3, Gain: 0.5}
	dir := t.TempDir()
	merged := spec
	merged.Merged = &adapter
	open := func(spec synth.Spec, lora ...load.LoRA) *modelVersion {
		t.Helper()
		cfg := tinyConfig(t)
		cfg.LoRA, cfg.Path = lora, filepath.Join(dir, "model.gguf")
		if spec.Merged != nil {
			cfg.Path = filepath.Join(dir, "merged.gguf")
		}
		if err := synth.Write(cfg.Path, spec); err != nil {
			t.Fatal(err)
		}
		s, err := openVersion(t.Context(), new(Service), cfg)
		if err != nil {
			t.Fatal(err)
		}
		closing(t, s)
		return s
	}
	path := filepath.Join(dir, "adapter.gguf")
	if err := synth.WriteAdapter(path, spec, adapter); err != nil {
		t.Fatal(err)
	}
	s, oracle := open(spec, load.LoRA{Name: "careful", Path: path}), open(merged)
	answer := func(s *modelVersion, adapter string) string {
		t.Helper()
		q := ask("What now?")
		q.Exact, q.Adapter = []byte(`{"type":"object","properties":{"why":{"type":"string","maxLength":40}},"required":["why"],"additionalProperties":false}`), adapter
		a, err := s.Ask(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return a.Text
	}
	plain, careful, want := answer(s, ""), answer(s, "careful"), answer(oracle, "")
	if careful != want || plain == want {
		t.Errorf("the adapter answers %s, want %s; without it %s", careful, want, plain)
	}
	if again := answer(s, ""); again != plain {
		t.Errorf("without an adapter %s, before %s", again, plain)
	}
	q := ask("What now?")
	q.Adapter = "none"
	_, err := s.Ask(t.Context(), q)
	var refused *backend.Error
	if !errors.As(err, &refused) || refused.Kind != backend.KindRefused || !strings.Contains(refused.Detail, "the adapters are careful") {
		t.Errorf("an unknown adapter: %v", err)
	}
}

func TestAdapterWithTheNameOfTheModelIsRefused(t *testing.T) {
	cfg := tinyConfig(t)
	path := writeAdapter(t, filepath.Join(t.TempDir(), "a.gguf"), 1)
	s, err := openVersion(t.Context(), new(Service), cfg)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	if err := s.adapters.set(t.Context(), s.Name(), path); err == nil || !strings.Contains(err.Error(), "choose another") {
		t.Errorf("%v", err)
	}
}
