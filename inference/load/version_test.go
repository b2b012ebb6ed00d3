package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"agentd/scheduler/generation"
)

// version is the version of the model at path.
func version(t *testing.T, path string) string {
	t.Helper()
	w, err := openWeights(path, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	w.begin(time.Hour)
	v, err := w.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVersionChangesWithOneByteOfTheWeights(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("weights ", 300_000)
	a, same := write(t, filepath.Join(dir, "a.gguf"), long), write(t, filepath.Join(dir, "b.gguf"), long)
	other := write(t, filepath.Join(dir, "c.gguf"), long[:len(long)-1]+"!")
	if v := version(t, a); v != version(t, same) || v == version(t, other) || len(v) != len("sha256:")+32 {
		t.Errorf("versions %s, %s of the same bytes, %s of others", v, version(t, same), version(t, other))
	}
}

func TestVersionOfASplitModelCoversAllFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(i int) string { return filepath.Join(dir, fmt.Sprintf("m-%05d-of-00002.gguf", i)) }
	write(t, path(1), "one")
	if _, err := openWeights(path(1), zerolog.Nop()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the second file: %v", err)
	}
	write(t, path(2), "two")
	before := version(t, path(1))
	write(t, path(2), "too")
	if after := version(t, path(1)); after == before {
		t.Errorf("%s before and after the second file changed", after)
	}
}

// A file that is replaced on disk is not the model that was loaded.
func TestVersionIsOfTheFileThatWasOpened(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "m.gguf"), "old")
	want := version(t, path)
	w, err := openWeights(path, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	w.begin(time.Hour)
	if err := os.Rename(write(t, filepath.Join(dir, "new"), "new"), path); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Version(t.Context()); err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if unused, err := openWeights(path, zerolog.Nop()); err != nil || unused.Close() != nil {
		t.Error("closing what was never begun fails")
	}
}

func TestVersionIsHashedBeforeAnybodyAsks(t *testing.T) {
	w, err := openWeights(write(t, filepath.Join(t.TempDir(), "m.gguf"), "weights"), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	w.begin(time.Hour)
	<-w.done
	if w.version == "" || w.err != nil {
		t.Errorf("version %q, %v", w.version, w.err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseStopsAHash whose waiters get the error of a server that ends, not of a client that left.
func TestCloseStopsAHash(t *testing.T) {
	w, err := openWeights(write(t, filepath.Join(t.TempDir(), "m.gguf"), "weights"), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	w.stop() // as Close does first
	w.begin(time.Hour)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if !errors.Is(w.err, generation.ErrClosed) {
		t.Errorf("version %q, %v", w.version, w.err)
	}
}

func TestVersionEndsWithItsContext(t *testing.T) {
	w, err := openWeights(write(t, filepath.Join(t.TempDir(), "m.gguf"), "weights"), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Version(ctx); !errors.Is(err, context.Canceled) { // nothing has begun
		t.Errorf("error %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestOverwrittenFileChangesTheVersionAndIsLogged(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(path string) error
		changed bool
	}{
		"the same size": {func(path string) error { return rewrite(path, "WEIGHTS") }, true},
		"shorter":       {func(path string) error { return os.Truncate(path, 3) }, true},
		"replaced": {func(path string) error {
			if err := os.WriteFile(path+".new", []byte("WEIGHTS"), 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		}, false},
		"removed": {os.Remove, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "m.gguf"), "weights")
			past := time.Now().Add(-time.Hour) // clocks of file systems are coarse
			if err := os.Chtimes(path, past, past); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			w, err := openWeights(path, zerolog.New(&log))
			if err != nil {
				t.Fatal(err)
			}
			w.begin(time.Hour)
			before, err := w.Version(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := tc.change(path); err != nil {
				t.Fatal(err)
			}
			var after [2]string
			for i := range after {
				if after[i], err = w.Version(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if known := w.Known(); (after[0] != before) != tc.changed || after[1] != after[0] || known != after[0] {
				t.Errorf("versions %s, %s, %s; known %s", before, after[0], after[1], known)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if lines := strings.Count(log.String(), "was overwritten"); (lines == 1) != tc.changed || lines > 1 {
				t.Errorf("log: %s", log.String())
			}
		})
	}
}

// Nobody needs to ask for the version.
func TestOverwrittenFileIsNoticedInTheBackground(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "m.gguf"), "weights")
	noticed := make(chan struct{})
	var once sync.Once
	w, err := openWeights(path, zerolog.New(writerFunc(func() { once.Do(func() { close(noticed) }) })))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 3); err != nil {
		t.Fatal(err)
	}
	w.begin(time.Millisecond)
	<-noticed
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// rewrite writes over the beginning of a file.
func rewrite(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
