// Package patch holds what agentd changes in llama.cpp, as C++, and its test.
package patch

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestCellsAndMasksMatchPlainLoops runs testdata/cells.cpp, which says where they are not.
func TestCellsAndMasksMatchPlainLoops(t *testing.T) {
	const tree = "../llama.cpp"
	header, err := os.ReadFile(tree + "/src/llama-kv-cells.h")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(header, []byte("agentd-cells.h")) {
		t.Skip("LLAMA_CPP_DIR is a llama.cpp without this patch")
	}
	program := filepath.Join(t.TempDir(), "cells_test")
	run(t, cmp.Or(os.Getenv("CXX"), "c++"), "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-D_GLIBCXX_ASSERTIONS", "-I.",
		"-isystem", tree+"/src", "-isystem", tree+"/include", "-isystem", tree+"/ggml/include", "-o", program, "testdata/cells.cpp")
	run(t, program)
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(name), err, out)
	}
}
