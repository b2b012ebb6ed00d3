package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheHashPrintedIsThatOfTheFile for both splits.
func TestTheHashPrintedIsThatOfTheFile(t *testing.T) {
	for _, more := range [][]string{nil, {"--eval"}} {
		path := filepath.Join(t.TempDir(), "set.jsonl")
		var out strings.Builder
		if err := run(t.Context(), append([]string{"dataset", "--groups", "2", "--seed", "3", "--out", path}, more...), &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%x  %s\n", sha256.Sum256(content), path); out.String() != want {
			t.Errorf("%q is printed, not %q", out.String(), want)
		}
	}
}

// TestWithoutAFileNothingIsWritten: the command chooses no file itself.
func TestWithoutAFileNothingIsWritten(t *testing.T) {
	for _, args := range [][]string{{}, {"--out", "x", "--groups", "0"}, {"--out", "x", "more"}, {"--what"}} {
		if err := run(t.Context(), append([]string{"dataset"}, args...), io.Discard, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
