package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestDocumentIsCurrent(t *testing.T) {
	got, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "options.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	write(&want)
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/options.md differs from the options; make generate writes it again")
	}
}
