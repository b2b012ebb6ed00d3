//go:build !race

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// room is a row of the table in ARCHITECTURE.md.
type room struct {
	packages []string
	imports  string // as the table says it
}

var quoted = regexp.MustCompile("`([^`]+)`")

func rooms(t *testing.T) (list []room) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, " | "); len(cells) == 3 && strings.HasPrefix(line, "| `") {
			r := room{imports: cells[2]}
			for _, m := range quoted.FindAllStringSubmatch(cells[0], -1) {
				r.packages = append(r.packages, m[1])
			}
			list = append(list, r)
		}
	}
	return list
}

// has reports whether a package is in the room.
func (r *room) has(name string) bool {
	return slices.ContainsFunc(r.packages, func(p string) bool { return means(p, name) })
}

// means reports whether the table means a package; `a/…` are all below a.
func means(written, name string) bool {
	below, all := strings.CutSuffix(written, "…")
	return written == name || all && strings.HasPrefix(name, below)
}

// allows reports whether the table lets a package of the room import another one.
func (r *room) allows(name, imported string) bool {
	switch {
	case strings.HasPrefix(r.imports, "all of `bench`") && strings.HasPrefix(imported, "bench/"), strings.TrimRight(r.imports, " |\n") == "all":
		return true
	case strings.Contains(r.imports, "its own subpackages") && strings.HasPrefix(imported, name+"/"):
		return true
	}
	return slices.ContainsFunc(quoted.FindAllStringSubmatch(r.imports, -1), func(m []string) bool { return means(m[1], imported) })
}

// importsOf are the packages of this module that each of its packages imports, tests aside.
func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	list := map[string][]string{}
	root := os.DirFS(filepath.Join("..", ".."))
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (file == "examples" || file == "third_party" || file != "." && strings.HasPrefix(file, ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name := path.Dir(file)
		imports := list[name]
		for _, i := range parsed.Imports {
			whole, err := strconv.Unquote(i.Path.Value)
			if ours, ok := strings.CutPrefix(whole, "agentd/"); ok && err == nil {
				imports = append(imports, ours)
			}
		}
		list[name] = imports
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestImportsMatchTable in ARCHITECTURE.md, and go downwards in it.
func TestImportsMatchTable(t *testing.T) {
	table := rooms(t)
	of := func(name string) int { return slices.IndexFunc(table, func(r room) bool { return r.has(name) }) }
	packages := importsOf(t)
	if len(packages) < 20 || len(table) < 20 {
		t.Fatalf("%d packages and %d rows were found", len(packages), len(table))
	}
	for name, imports := range packages {
		at := of(name)
		if at < 0 {
			if parent := of(path.Dir(name)); parent < 0 {
				t.Errorf("%s has no row", name)
			}
			continue // a part of the package above it: its own affair
		}
		slices.Sort(imports)
		for _, imported := range slices.Compact(imports) {
			if !table[at].allows(name, imported) {
				t.Errorf("the row of %s does not say that it imports %s", name, imported)
			}
			if to := of(imported); to < at {
				t.Errorf("%s imports %s, which stands above it", name, imported)
			}
		}
	}
}

// TestConsoleNeedsNoServer of ours: it reads and checks answers, and asks no coach.
func TestConsoleNeedsNoServer(t *testing.T) {
	packages, needed := importsOf(t), map[string]bool{}
	var need func(name string)
	need = func(name string) {
		if !needed[name] {
			needed[name] = true
			for _, imported := range packages[name] {
				need(imported)
			}
		}
	}
	need("cmd/agentd/console")
	reads := []string{"coaching/console", "coaching/repair", "coaching/repair/parse", "coaching/internal/quote"}
	for name := range needed {
		top, _, _ := strings.Cut(name, "/")
		if slices.Contains([]string{"agent", "inference", "llama", "scheduler", "server"}, name) || top == "coaching" && !slices.Contains(reads, name) {
			t.Errorf("the console needs %s", name)
		}
	}
	if !needed["coaching/repair/parse"] {
		t.Error("the console's imports were not found")
	}
}

// filesInOrder begins the list of files in a package's doc, each before those that it uses.
const filesInOrder = "Each file uses only files after it"

var goFile = regexp.MustCompile(`\b\w+\.go\b`)

// TestFilesUseOnlyLaterFiles of their package, where its doc lists them, but for a tenth of the arrows.
func TestFilesUseOnlyLaterFiles(t *testing.T) {
	packages := map[string]map[string]*ast.File{}
	err := filepath.WalkDir(filepath.Join(repository, "coaching"), func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		dir := filepath.Dir(name)
		if packages[dir] == nil {
			packages[dir] = map[string]*ast.File{}
		}
		packages[dir][filepath.Base(name)], err = parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	arrows, up := 0, []string{}
	for dir, files := range packages {
		order := listedFiles(files)
		if order == nil {
			continue
		}
		for name, file := range files {
			at := slices.Index(order, name)
			if at < 0 && name != "doc.go" {
				t.Errorf("the doc of %s does not list %s", dir, name)
			}
			for used := range usedFiles(files, name, file) {
				if arrows++; slices.Index(order, used) < at {
					up = append(up, filepath.Join(dir, name)+" uses "+used)
				}
			}
		}
	}
	if arrows < 100 || 10*len(up) > arrows {
		t.Errorf("%d of %d arrows between files run up:\n%s", len(up), arrows, strings.Join(up, "\n"))
	}
}

// listedFiles are the files of a package in the order of its doc, nil if it has none.
func listedFiles(files map[string]*ast.File) []string {
	for _, file := range files {
		if _, list, ok := strings.Cut(strings.Join(strings.Fields(file.Doc.Text()), " "), filesInOrder); ok {
			return goFile.FindAllString(list, -1)
		}
	}
	return nil
}

// usedFiles are the other files of its package whose declarations a file uses. A method counts if no
// other method or field has its name.
func usedFiles(files map[string]*ast.File, name string, file *ast.File) map[string]bool {
	declared, methods := map[string]string{}, map[string]string{}
	for other, f := range files {
		for object := range f.Scope.Objects {
			declared[object] = other
		}
		ast.Inspect(f, func(n ast.Node) bool {
			method := ""
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					method = n.Name.Name
				}
			case *ast.Field:
				for _, field := range n.Names {
					methods[field.Name] = ""
				}
			}
			if _, twice := methods[method]; twice {
				methods[method] = ""
			} else if method != "" && !ast.IsExported(method) {
				methods[method] = other
			}
			return true
		})
	}
	used := map[string]bool{}
	for _, id := range file.Unresolved {
		used[declared[id.Name]] = true
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			used[methods[s.Sel.Name]] = true
		}
		return true
	})
	delete(used, "")
	delete(used, name)
	return used
}

// TestTopLevelIsDrawn in ARCHITECTURE.md, a line for each folder.
func TestTopLevelIsDrawn(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, drawing, _ := strings.Cut(string(text), "## The top level\n\n```\n")
	drawing, _, _ = strings.Cut(drawing, "```")
	var drawn, there []string
	for line := range strings.Lines(drawing) {
		name, holds, _ := strings.Cut(line, " ")
		if drawn = append(drawn, name); strings.TrimSpace(holds) == "" {
			t.Errorf("the drawing does not say what %s holds", name)
		}
	}
	entries, err := os.ReadDir(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		built := []string{"lib", "dist", "node_modules"} // what make builds
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(built, e.Name()) {
			there = append(there, e.Name())
		}
	}
	if !slices.Equal(drawn, there) {
		t.Errorf("ARCHITECTURE.md draws %q, and the folders are %q", drawn, there)
	}
}

var stepFunction = regexp.MustCompile("`([a-z/]+)\\.(\\w+)`")

// TestStepsNameExistingFunctions holds the names in "One request in ten steps" of ARCHITECTURE.md.
func TestStepsNameExistingFunctions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, steps, _ := strings.Cut(string(text), "\n## One request in ten steps\n")
	steps, _, _ = strings.Cut(steps, "\n## ")
	functions := map[string]bool{}
	goFiles(t, func(name string, _ *token.FileSet, file *ast.File) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				functions[path.Dir(name)+"."+f.Name.Name] = true
			}
		}
	})
	named := stepFunction.FindAllStringSubmatch(steps, -1)
	if len(named) < 30 {
		t.Errorf("the steps name %d functions", len(named))
	}
	for _, m := range named {
		if name := m[1] + "." + m[2]; !functions[name] {
			t.Errorf("%s does not exist", name)
		}
	}
}
