//go:build !race

package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentd/cmd/agentd/serve"
)

var (
	sourceFile = regexp.MustCompile(`\.(go|cpp|h|c|cu|py|js|css|html|sh|sql)$`)
	// testFile matches tests, their data, and packages that only tests import.
	testFile = regexp.MustCompile(`testdata/|_test/|/tests/|/testing/|test/[^/]*$|_test\.\w+$|(^|/)test_[^/]*$`)
	// notServer are the folders of other programs and of what uses the server.
	notServer = []string{"household", "bench", "clients", "examples"}
	limitRow  = regexp.MustCompile(`(?m)^\| (.+?) \| ([0-9,]+) \|$`)
)

// TestSizesAreWithinLimits compares the repository with the table of limits in CONTRIBUTING.md.
func TestSizesAreWithinLimits(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	limits := map[string]int{}
	_, table, _ := strings.Cut(string(text), "\n## Limits\n")
	for _, row := range limitRow.FindAllStringSubmatch(table, -1) {
		if limits[row[1]], err = strconv.Atoi(strings.ReplaceAll(row[2], ",", "")); err != nil {
			t.Fatal(err)
		}
	}
	sizes := map[string]int{}
	for _, o := range serve.DefaultConfig().Command().Options {
		sizes["settings of the server"] += max(1, len(o.Value.Keys())) // KEY=VALUE,... has several
	}
	countFiles(t, sizes)
	countWorker(t, sizes)
	countTypes(t, sizes)
	functions := countFunctions(t, sizes)
	for what, size := range sizes {
		if limit, ok := limits[what]; !ok || size > limit {
			t.Errorf("%s: %d; the limit is %d (0: the table in CONTRIBUTING.md has no row).\n"+
				"Make it smaller, or raise the limit in a commit of its own that says why.", what, size, limit)
			if strings.HasPrefix(what, requestFunctions) {
				t.Log(strings.Join(functions, "\n"))
			}
		}
	}
	for what := range limits {
		if _, ok := sizes[what]; !ok {
			t.Errorf("%s: the table has a row for what is not there", what)
		}
	}
}

// countFiles counts top-level folders, lines of source by folder and words of documents, of tracked files.
func countFiles(t *testing.T, sizes map[string]int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", repository, "ls-files").Output()
	if err != nil {
		t.Skip("the sizes of tracked files are limited, and this is no clone: ", err)
	}
	folders := map[string]bool{}
	for _, name := range strings.Fields(string(out)) {
		document := strings.HasSuffix(name, ".md")
		top, _, nested := strings.Cut(name, "/")
		if nested && !strings.HasPrefix(top, ".") {
			folders[top] = true
		}
		if !document && (!nested || !sourceFile.MatchString(name) || testFile.MatchString(name)) {
			continue
		}
		body, err := os.ReadFile(filepath.Join(repository, name))
		switch lines := bytes.Count(body, []byte("\n")); {
		case os.IsNotExist(err): // deleted, and not committed yet
		case err != nil:
			t.Fatal(err)
		case document:
			words := len(bytes.Fields(body))
			sizes["words of documents"] += words
			if strings.HasPrefix(name, "docs/decisions/") {
				sizes["words of the longest decision page"] = max(sizes["words of the longest decision page"], words)
			}
		default:
			sizes["lines of `"+top+"`"] += lines
			sizes["lines in all"] += lines
			if !slices.Contains(notServer, top) {
				sizes["lines of the server"] += lines
			}
		}
	}
	sizes["top-level folders"] = len(folders)
}

// countWorker counts what a step of the scheduler goes through.
func countWorker(t *testing.T, sizes map[string]int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, "scheduler", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	for _, name := range files {
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				switch body := n.Type.(type) {
				case *ast.StructType:
					if n.Name.Name == "worker" {
						sizes["fields of `scheduler.worker`"] = body.Fields.NumFields()
					}
				case *ast.InterfaceType:
					if n.Name.Name == "backend" {
						sizes["methods of `scheduler.backend`"] = body.Methods.NumFields()
					}
				}
			case *ast.FuncDecl:
				if n.Name.Name == "step" && n.Recv != nil {
					sizes["lines of `worker.step`"] = fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
				}
			}
			return true
		})
	}
}

// countTypes counts the types that ARCHITECTURE.md lists for an input and its decision. All of them must exist.
func countTypes(t *testing.T, sizes map[string]int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	goFiles(t, func(name string, _ *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && !strings.HasPrefix(name, "cmd/") {
				declared[file.Name.Name+"."+spec.Name.Name] = true
			}
			return true
		})
	})
	_, list, _ := strings.Cut(string(text), "\nAn input passes through ")
	list, _, _ = strings.Cut(list, "\n")
	listed, _, _ := strings.Cut(list, " ")
	names := quoted.FindAllStringSubmatch(list, -1)
	for _, name := range names {
		if !declared[name[1]] {
			t.Errorf("ARCHITECTURE.md lists the type %s, which does not exist", name[1])
		}
	}
	if sizes["types that an input passes through"] = len(names); listed != strconv.Itoa(len(names)) {
		t.Errorf("ARCHITECTURE.md says %q and lists %d types", listed, len(names))
	}
}
