package version

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script runs a script of third_party below root, with variables before the tests' own, and returns what it prints.
func script(t *testing.T, root string, variables []string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "third_party", command[0]), command[1:]...)
	cmd.Env = append(os.Environ(), variables...)
	out, _ := cmd.CombinedOutput() // the text says whether it failed
	return string(out)
}

// TestBuildKeyDependsOnNoPlace: finished libraries serve a copy of the cache and of the clone.
func TestBuildKeyDependsOnNoPlace(t *testing.T) {
	if _, err := exec.LookPath(cmp.Or(os.Getenv("CXX"), "c++")); err != nil {
		t.Skip("no C++ compiler")
	}
	clone := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "cp", "-r", "../../../third_party", "../../../CMakeLists.txt", clone).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var first string
	for _, root := range []string{"../../..", clone} {
		got := script(t, root, []string{"CACHED_ONLY=yes", "LLAMA_CPP_DIR=", "XDG_CACHE_HOME=" + t.TempDir()}, "build.sh", "cpu")
		if !strings.HasPrefix(got, "agentd: the cache has no cpu-") {
			t.Fatalf("got %s", got)
		}
		if first = cmp.Or(first, got); got != first {
			t.Errorf("one key is %s, another %s", first, got)
		}
	}
}

func TestOldGoIsNamedBeforeTheBuild(t *testing.T) {
	for name, test := range map[string]struct{ program, want string }{
		"too old":          {"echo go1.19", "this is Go 1.19"},
		"missing":          {"exit 127", "there is no go in PATH"},
		"may not be newer": {`[[ $PWD == / ]] && echo go1.21.0`, "this is Go 1.21.0"},
		"newer":            {"echo go1.99.1", ""},
	} {
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/bash\n"+test.program+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		path := "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")
		got := script(t, "../../..", []string{path}, "prereqs.sh", "go")
		if !strings.HasPrefix(got, "agentd: please install Go ") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q in it", name, got, test.want)
		}
	}
}

// TestBuildReportsProgress: off a terminal, what ninja has done is a line now and then.
func TestBuildReportsProgress(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "bash", "-c",
		`. ../../../third_party/common.sh; printf '%s\n' 'configuring' '[3/370] Building x.o' '[4/370] Linking y' | progress llama.cpp 0`).CombinedOutput()
	if want := "agentd: building llama.cpp [3/370]\nagentd: building llama.cpp [4/370]\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}
