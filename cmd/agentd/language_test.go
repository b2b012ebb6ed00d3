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

// goFiles calls f with each Go file of the repository.
func goFiles(t *testing.T, f func(name string, fset *token.FileSet, file *ast.File)) {
	t.Helper()
	root := os.DirFS(filepath.Join("..", ".."))
	count := 0
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		source, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		count++
		f(name, fset, parsed)
		return nil
	})
	if err != nil || count < 500 {
		t.Fatalf("%d files were read: %v", count, err)
	}
}

var testName = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark)(?:[A-Z0-9_].*)?$`)

func TestTestNamesHaveAtMostTenWords(t *testing.T) {
	const most = 10
	goFiles(t, func(name string, fset *token.FileSet, file *ast.File) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && testName.MatchString(f.Name.Name) {
				if n := wordsOf(f.Name.Name) - 1; n > most {
					t.Errorf("%s: %s has %d words", fset.Position(f.Pos()), f.Name.Name, n)
				}
			}
		}
	})
}

// wordsOf counts the words of a name in camel case.
func wordsOf(name string) (n int) {
	upper := func(i int) bool { return i < len(name) && 'A' <= name[i] && name[i] <= 'Z' }
	for i := range len(name) {
		if upper(i) && (i == 0 || !upper(i-1) || i+1 < len(name) && !upper(i+1) && name[i+1] != 's') {
			n++
		}
	}
	return n
}

func TestErrorsBelowCommandsNameNoFlags(t *testing.T) {
	flag := regexp.MustCompile(`(^|[ ("'` + "`" + `])--[a-z]`)
	goFiles(t, func(name string, fset *token.FileSet, file *ast.File) {
		top, _, _ := strings.Cut(name, "/")
		switch {
		case strings.HasSuffix(name, "_test.go"), strings.Contains(name, "/cmd/"):
			return
		case top == "cmd" || top == "examples" || top == "bench": // programs, and what starts them
			return
		case strings.HasPrefix(name, "cmd/internal/options/"), strings.HasPrefix(name, "coaching/postgres/pgtest/"): // what defines flags, and what starts programs of others
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && strings.Contains(text.Value, " ") && flag.MatchString(text.Value) {
				t.Errorf("%s: name the field of a Config instead of a flag: %s", fset.Position(text.Pos()), text.Value)
			}
			return true
		})
	})
}
