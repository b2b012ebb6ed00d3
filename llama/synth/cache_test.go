package synth_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"agentd/llama/synth"
)

func TestCacheDirIsInTheUsersCache(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	if dir, err := synth.CacheDir(); err != nil || dir != filepath.Join(home, "agentd", "models") {
		t.Errorf("%s, %v", dir, err)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if dir, err := synth.CacheDir(); err == nil {
		t.Errorf("without a home there is %s", dir)
	}
}

func TestKeepWritesOnlyFilesThatAreNotWhole(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, tc := range []struct {
		rule   string
		whole  bool
		writes int
	}{{"a file that is whole is left alone", true, 0}, {"any other is written", false, 1}} {
		t.Run(tc.rule, func(t *testing.T) {
			dir, err := synth.CacheDir()
			if err != nil {
				t.Fatal(err)
			}
			writes := 0
			path, err := synth.Keep("", "m.gguf", func(string) bool { return tc.whole }, func(string) error { writes++; return nil })
			if err != nil || path != filepath.Join(dir, "m.gguf") || writes != tc.writes {
				t.Errorf("%s, %d writes, %v", path, writes, err)
			}
		})
	}
}

func TestUnfilledFileDoesNotAppear(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, "m.gguf")
	full := errors.New("full")
	if err := synth.WriteFile(path, func(*os.File) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", err, left)
	}
	fill := func(f *os.File) error { _, err := f.WriteString("x"); return err }
	if err := synth.WriteFile(path, fill); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
	if err := synth.WriteFile(filepath.Join(path, "below"), fill); err == nil {
		t.Error("a file has become a directory")
	}
}
