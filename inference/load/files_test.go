package load

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTensorsAloneNeedACheckpointWithTheOtherFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{"", "model.gguf", dir} {
		if _, err := Complete(dir, base, t.TempDir()); err == nil || !strings.Contains(err.Error(), "save both there, or") {
			t.Errorf("%q: %v", base, err)
		}
	}
}

func TestPartsOfAModelCountTogether(t *testing.T) {
	dir := t.TempDir()
	first := filepath.Join(dir, "m-00001-of-00003.gguf")
	paths := Files(first)
	if want := []string{first, filepath.Join(dir, "m-00002-of-00003.gguf"), filepath.Join(dir, "m-00003-of-00003.gguf")}; !slices.Equal(paths, want) {
		t.Fatalf("%q, want %q", paths, want)
	}
	for i, p := range paths {
		if err := os.WriteFile(p, make([]byte, 10+i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bytes, unchanged, err := Watch(paths...)
	if err != nil || bytes != 33 || unchanged() != nil {
		t.Fatalf("%d bytes, %v", bytes, err)
	}
	if err := os.WriteFile(paths[2], make([]byte, 5), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unchanged(); err == nil || !strings.Contains(err.Error(), "m-00003-of-00003.gguf changed") {
		t.Errorf("after the last part changed: %v", err)
	}
	if _, _, err := Watch(append(paths, filepath.Join(dir, "none"))...); err == nil {
		t.Error("a part that is missing was not missed")
	}
	if got := Files("whole.gguf"); len(got) != 1 {
		t.Errorf("a whole file has the parts %q", got)
	}
}
