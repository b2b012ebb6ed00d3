//go:build !race

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// flagInText is a flag of a command line, such as --queue-limit.
var flagInText = regexp.MustCompile(`(^|[ "(])--[a-z][a-z-]+`)

// TestNoTextBelowCommandsNamesFlags: packages don't know the options that fill their
// fields. They name the field, which serve replaces by the flag.
func TestNoTextBelowCommandsNamesFlags(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	for _, dir := range []string{"agent", "coaching", "inference", "llama", "protocol", "scheduler", "server"} {
		err := fs.WalkDir(os.DirFS(root), dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test") {
				return err
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, filepath.Join(root, path), nil, 0)
			if err != nil {
				return err
			}
			files++
			ast.Inspect(parsed, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && flagInText.MatchString(text.Value) {
					t.Errorf("%s: %s", set.Position(text.Pos()), text.Value)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("%d files were read", files)
	}
}
