package llama

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"agentd/llama/synth"
)

func TestThereIsACPU(t *testing.T) {
	for _, d := range Devices() {
		if d.Type == "cpu" && d.Name != "" && d.MemoryFree > 0 {
			return
		}
	}
	t.Errorf("no CPU among %+v", Devices())
}

func TestLibDirHoldsTheLibraries(t *testing.T) {
	if _, err := os.Stat(filepath.Join(LibDir(), "libllama.so.0")); err != nil {
		t.Error(err)
	}
}

func TestLoadBackends(t *testing.T) {
	empty := t.TempDir()
	if names, err := LoadBackends(empty); len(names) != 0 || err != nil {
		t.Errorf("an empty directory: %v, %v", names, err)
	}
	if _, err := LoadBackends(filepath.Join(empty, "none")); err == nil {
		t.Error("a missing directory is no error")
	}
	broken := t.TempDir()
	for _, name := range []string{"libggml-cuda.so", "libggml-cpu-haswell.so", "libggml-base.so", "readme"} {
		if err := os.WriteFile(filepath.Join(broken, name), []byte("not a library at all"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out lockedBuffer
	if err := Init(zerolog.New(&out)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Init(zerolog.Nop()) })
	names, err := LoadBackends(broken)
	if len(names) != 0 || err == nil {
		t.Fatalf("broken plugins: %v, %v", names, err)
	}
	for _, want := range []string{"libggml-cuda.so", "libggml-cpu-haswell.so", "file too short", "none of 1 CPU backends"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	if got := out.String(); strings.Contains(got, `"level":"error"`) || !strings.Contains(got, "file too short") {
		t.Errorf("the caller reports the errors, and the log has them too: %s", got)
	}
	if strings.Contains(err.Error(), "libggml-base.so") {
		t.Errorf("error %q names a library that is no plugin", err)
	}
}

// lockedBuffer takes log lines from any thread.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestLogsGoToZerolog(t *testing.T) {
	var out lockedBuffer
	if err := Init(zerolog.New(&out)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Init(zerolog.Nop()) })
	m := private(t)
	if err := newContext(t, m, SetContext(2*m.Info().ContextTrain)).Close(); err != nil {
		t.Fatal(err)
	}
	m.Free()
	bad := filepath.Join(t.TempDir(), "bad.gguf")
	if err := os.WriteFile(bad, []byte("GGUF and then nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(bad); err == nil {
		t.Fatal("it loaded")
	}
	got := out.String()
	for _, want := range []string{`"level":"debug"`, `"level":"error"`, `"component":"llama.cpp"`, "general.architecture", sharedCache} {
		if !strings.Contains(got, want) {
			t.Errorf("the log does not say %s:\n%s", want, got)
		}
	}
	for line := range strings.Lines(got) {
		if !strings.HasPrefix(line, "{") || strings.Contains(line, `\n"`) {
			t.Errorf("log line %q", line)
		}
		if strings.Contains(line, sharedCache) && !strings.Contains(line, `"level":"debug"`) {
			t.Errorf("a cache that sequences share is no reason to warn: %s", line)
		}
	}
	// a logger that drops everything
	if err := Init(zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	before := out.String()
	feed(t, newContext(t, shared(t, synth.GPTOSS)), 0, []Token{1})
	if out.String() != before {
		t.Error("the old logger is still written to")
	}
}
