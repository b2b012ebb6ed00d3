package synth_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/llama/synth"
)

func TestQuantizeWritesALoadableModel(t *testing.T) {
	spec := small(t, synth.Qwen3)
	spec.Type = "f16"
	src := write(t, spec)
	dst := filepath.Join(t.TempDir(), "q8_0.gguf")
	if err := synth.Quantize(src, dst); err != nil {
		t.Fatal(err)
	}
	m := load(t, dst)
	if info := m.Info(); info.FileType != "Q8_0" || !info.Quantized {
		t.Errorf("info %+v", info)
	}
	if len(generate(t, m, "the robot", 4)) == 0 {
		t.Error("no token was generated")
	}
}

func TestWidenedModelHasTheSameWeightsInF32(t *testing.T) {
	spec := small(t, synth.Qwen3)
	spec.Type = "f16"
	dst := filepath.Join(t.TempDir(), "f32.gguf")
	if err := synth.Widen(write(t, spec), dst); err != nil {
		t.Fatal(err)
	}
	if info := load(t, dst).Info(); !strings.Contains(info.FileType, "F32") || info.Quantized {
		t.Errorf("info %+v", info)
	}
}

func TestQuantizeLeavesNoFileBehindAnError(t *testing.T) {
	dir := t.TempDir()
	for condition, src := range map[string]string{"a missing source": filepath.Join(dir, "none"), "a source that is no model": write(t, small(t, synth.Qwen3)) + "x"} {
		if err := synth.Quantize(src, filepath.Join(dir, "a")); err == nil {
			t.Errorf("%s: no error", condition)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}
