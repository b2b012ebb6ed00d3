package live

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd/llama/checkpoint"
	"agentd/llama/checkpoint/checkpointtest"
	"agentd/llama/synth"
)

// TestCheckpointServesLikeItsFile: what a trainer writes is loaded as it is, replaces its GGUF file, and takes PEFT's
// adapters.
func TestCheckpointServesLikeItsFile(t *testing.T) {
	parent := t.TempDir()
	all := checkpointtest.All()
	f := all[slices.IndexFunc(all, func(f checkpointtest.Fixture) bool { return f.Name == "qwen2-bf16" })]
	dir, lora := f.Write(t, parent), filepath.Join(parent, "lora")
	checkpointtest.WriteAdapter(t, lora)
	checkpointtest.Write(t, dir, map[string]any{"generation_config.json": `{"eos_token_id": 256, "top_k": -1}`})
	if err := synth.WriteFile(filepath.Join(parent, "file.gguf"), func(to *os.File) error { return checkpoint.Write(to, dir) }); err != nil {
		t.Fatal(err)
	}
	cfg := tinyConfig(t)
	cfg.WeightsDir, cfg.Path, cfg.ContextLength, cfg.Agent.MaxNewTokens = parent, dir, 4096, 16
	l := openLive(t, cfg)
	first := asked(t, l, "Go on", "").Elements.Generation
	if !strings.HasPrefix(first.Model, "sha256:") {
		t.Fatalf("the version is %q", first.Model)
	}
	if k := l.Info().Sampling.TopK; k != 0 {
		t.Errorf("top_k -1, which is off, became %d", k)
	}
	raw := asked(t, l, "Go on", "").Raw
	for _, path := range []string{"file.gguf", f.Name} {
		if err := l.SetModel(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		got := asked(t, l, "Go on", "")
		if got.Raw != raw || got.Elements.Generation.Model != first.Model {
			t.Errorf("%s: %q with %s, want %q with %s", path, got.Raw, got.Elements.Generation.Model, raw, first.Model)
		}
	}
	pushed := filepath.Join(parent, "pushed")
	if err := os.CopyFS(pushed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := l.SetModel(t.Context(), "pushed"); err != nil || l.Info().Name != f.Name {
		t.Errorf("after a change the model is %s, not %s: %v", l.Info().Name, f.Name, err)
	}
	whole := asked(t, l, "Go on", "").Elements.Generation.Model
	for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json"} { // prime-rl saves none
		if err := os.Remove(filepath.Join(pushed, name)); err != nil {
			t.Fatal(err)
		}
		if err := l.SetModel(t.Context(), "pushed"); err != nil {
			t.Fatal(err)
		}
		if got := asked(t, l, "Go on", ""); got.Raw != raw || got.Elements.Generation.Model != whole || l.Info().Path != pushed {
			t.Errorf("without %s: %q of %s with %s, want %q with %s", name, got.Raw, l.Info().Path, got.Elements.Generation.Model, raw, whole)
		}
	}
	if err := l.SetAdapter(t.Context(), "policy", "lora"); err != nil {
		t.Fatal(err)
	}
	if got := asked(t, l, "Go on", `,"adapter":"policy"`); got.Raw == raw {
		t.Error("the adapter changes nothing")
	}
	for path, want := range map[string]string{"lora": "config.json", ".": "directory of weights"} {
		if err := l.SetModel(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("model %s: %v, want %q", path, err, want)
		}
	}
	unknown := filepath.Join(parent, "unknown")
	if err := os.CopyFS(unknown, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(unknown, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	checkpointtest.Write(t, unknown, map[string]any{"config.json": strings.Replace(string(text), "{", `{"logit_scale": 2, `, 1)})
	var refused *Error
	if err := l.SetModel(t.Context(), "unknown"); !errors.As(err, &refused) || refused.Reason != Unusable || !strings.Contains(err.Error(), "logit_scale is not known") {
		t.Errorf("a member that is not known: %v", err)
	}
	if got := asked(t, l, "Go on", ""); got.Raw != raw {
		t.Errorf("afterwards %q, before %q", got.Raw, raw)
	}
	if err := os.Truncate(filepath.Join(lora, "adapter_model.safetensors"), 100); err != nil {
		t.Fatal(err)
	}
	if err := l.SetAdapter(t.Context(), "policy", "lora"); err == nil || !strings.Contains(err.Error(), "adapter_model.safetensors") {
		t.Errorf("a damaged adapter: %v", err)
	}
}
