package defaultmodel

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"agentd/household"
	"agentd/llama"
	"agentd/llama/synth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// maxBytes bounds the weights in the repository and in the binary.
const maxBytes = 12_000_000

// written is the path of the weights in a new directory.
func written(t *testing.T, dir string) string {
	t.Helper()
	path, err := Path(dir)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, gguf) {
		t.Fatalf("%s holds %d bytes that are not the weights, %v", path, len(text), err)
	}
	return path
}

func TestPathWritesFileOnce(t *testing.T) {
	dir := t.TempDir()
	path := written(t, dir)
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := os.Stat(written(t, dir))
	if err != nil || !os.SameFile(first, again) || !again.ModTime().Equal(first.ModTime()) {
		t.Errorf("the file was written again: %v", err)
	}
}

func TestPathReplacesDamagedFile(t *testing.T) {
	dir := t.TempDir()
	path := written(t, dir)
	changed := bytes.Clone(gguf)
	changed[len(changed)/2] ^= 1
	for name, content := range map[string][]byte{"empty": nil, "cut": gguf[:1000], "one bit": changed} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if again := written(t, dir); again != path {
				t.Errorf("the path changed to %s", again)
			}
		})
	}
}

func TestPathIsSafeForConcurrentCalls(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if path, err := Path(dir); err != nil || !isWhole(path) {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
	all.Wait()
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

func TestPathFailsWhenDirIsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if path, err := Path(file); err == nil {
		t.Errorf("got path %s and no error", path)
	}
}

// TestWeightsMatchModelCard checks size, licence and chat template.
func TestWeightsMatchModelCard(t *testing.T) {
	if len(gguf) > maxBytes {
		t.Errorf("%d bytes, more than %d", len(gguf), maxBytes)
	}
	m, err := llama.New(written(t, t.TempDir()), llama.SetDevices("cpu"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	info, metadata := m.Info(), m.Metadata()
	if info.Architecture != synth.Qwen3 || info.FileType != "F16" || info.Name != "agentd household" || metadata["general.license"] != "mit" {
		t.Errorf("%+v, license %q", info, metadata["general.license"])
	}
	if metadata["tokenizer.chat_template"] != household.ChatTemplate {
		t.Error("the chat template is not that of the training: train again, or export with chat_template.jinja")
	}
}
