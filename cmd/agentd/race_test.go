//go:build !race

package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// concurrent is how tests and what they call run at once.
var (
	concurrent         = regexp.MustCompile(`(?m)^\s*go (func|\w+[.(])|\.(Go|Parallel)\(`)
	concurrentPackages = []string{"sync", "sync/atomic", "net/http/httptest", "golang.org/x/sync/errgroup", "agentd/scheduler", "agentd/server"}
)

// TestFilesWithoutRaceDetectorAreSequential: make test runs their tests without it.
func TestFilesWithoutRaceDetectorAreSequential(t *testing.T) {
	tree, count := os.DirFS(repository), 0
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil || !strings.HasPrefix(string(source), "//go:build !race\n") {
			return err
		}
		count++
		if found := concurrent.Find(source); found != nil {
			t.Errorf("%s: %q runs at once with others; move the test to a file without //go:build !race", name, found)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); slices.Contains(concurrentPackages, path) {
				t.Errorf("%s imports %s; move the test to a file without //go:build !race", name, path)
			}
		}
		return nil
	})
	if err != nil || count == 0 {
		t.Errorf("%d files have //go:build !race: %v", count, err)
	}
}
