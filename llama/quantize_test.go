package llama

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/llama/synth"
)

func TestQuantize(t *testing.T) {
	spec, err := synth.Preset("tiny", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	spec.Small, spec.Type = true, "f16"
	dir := t.TempDir()
	src := filepath.Join(dir, "f16.gguf")
	if err := synth.Write(src, spec); err != nil {
		t.Fatal(err)
	}
	for ftype, want := range map[string]string{"q8_0": "Q8_0", "Q4_0": "Q4_0"} {
		dst := filepath.Join(dir, ftype+".gguf")
		if err := Quantize(src, dst, ftype); err != nil {
			t.Fatal(err)
		}
		m, err := New(dst)
		if err != nil {
			t.Fatal(err)
		}
		if info := m.Info(); info.FileType != want || !info.Quantized {
			t.Errorf("%s: info %+v", ftype, info)
		}
		feed(t, newContext(t, m), 0, tokenize(t, m, "the robot"))
		t.Cleanup(func() { m.Free() })
	}
}

func TestQuantizeErrors(t *testing.T) {
	dir := t.TempDir()
	src := modelPath(t, synth.GPTOSS)
	for _, tc := range []struct{ rule, src, dst, ftype, want string }{
		{"an unknown type lists the known ones", src, filepath.Join(dir, "a"), "q9", "q8_0"},
		{"a missing source", filepath.Join(dir, "none"), filepath.Join(dir, "a"), "q8_0", "no such file"},
		{"a target in no directory", src, filepath.Join(dir, "none", "a"), "q8_0", "no such file"},
		{"a source that is quantized already", src, filepath.Join(dir, "a"), "q4_0", "requantizing"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if err := Quantize(tc.src, tc.dst, tc.ftype); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not say %q", err, tc.want)
			}
		})
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}
