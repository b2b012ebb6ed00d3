package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramLoadsItsOwnLibraries asks the loader what it takes where LD_LIBRARY_PATH has other libraries of these names.
func TestProgramLoadsItsOwnLibraries(t *testing.T) {
	own, err := filepath.Glob(filepath.Join(repository, "lib", "lib*.so.0"))
	if err != nil || len(own) < 4 {
		t.Fatalf("%q, %v", own, err)
	}
	others := t.TempDir()
	for _, path := range own {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(others, filepath.Base(path)), string(body))
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "LD_TRACE_LOADED_OBJECTS=1", "LD_LIBRARY_PATH="+others)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "libggml-cpu.so.0 => ") || strings.Contains(string(out), others) {
		t.Errorf("%v:\n%s", err, out)
	}
}
