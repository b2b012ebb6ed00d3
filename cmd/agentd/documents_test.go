//go:build !race

package main

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentd/cmd/agentd/serve"
	"agentd/cmd/household/eval"
	"agentd/cmd/internal/options"
	"agentd/cmd/internal/options/optionstest"
)

func TestDocumentedCommandsExist(t *testing.T) {
	lines := lines()
	uses := optionstest.Uses(t, repository, "agentd")
	if len(uses) < 20 {
		t.Fatalf("%d commands were found", len(uses))
	}
	for _, use := range uses {
		name := "serve"
		if len(use.Args) > 0 && !strings.HasPrefix(use.Args[0], "-") && !serve.IsModel(use.Args[0]) {
			name = use.Args[0]
		}
		if slices.Contains([]string{"man", "version", "help", "COMMAND"}, name) {
			continue
		}
		command, ok := lines[name]
		if !ok {
			t.Errorf("%s: agentd has no command %s", use.File, name)
			continue
		}
		for _, flag := range use.Flags() {
			if flag != "help" && !slices.ContainsFunc(command.Options, func(o options.Option) bool { return o.Name == flag }) {
				t.Errorf("%s: agentd %s has no option --%s", use.File, name, flag)
			}
		}
	}
}

// TestDocumentedOptionsExist in the documents that name no other program's options.
func TestDocumentedOptionsExist(t *testing.T) {
	known := map[string]bool{"help": true, "version": true}
	for _, command := range append(slices.Collect(maps.Values(lines())), eval.DefaultConfig().Command()) {
		for _, o := range command.Options {
			known[o.Name] = true
		}
	}
	files := []string{"README.md", "CHANGELOG.md", "ARCHITECTURE.md", "SECURITY.md"}
	for _, name := range []string{"agent", "coaching", "console", "model", "options", "protocol"} {
		files = append(files, filepath.Join("docs", name+".md"))
	}
	decisions, err := filepath.Glob(filepath.Join(repository, "docs", "decisions", "*.md"))
	if err != nil || len(decisions) == 0 {
		t.Fatalf("no decisions: %v", err)
	}
	for i, name := range files {
		files[i] = filepath.Join(repository, name)
	}
	found := 0
	flag := regexp.MustCompile("`--([a-z][a-z0-9-]*)")
	for _, file := range append(files, decisions...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range flag.FindAllStringSubmatch(string(text), -1) {
			if found++; !known[m[1]] {
				t.Errorf("%s: agentd has no option --%s", file, m[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("%d options were found", found)
	}
}

func TestDocumentedMakeTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z.-]*):.*##`).FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, m[1])
	}
	listed := map[string]bool{}
	for _, use := range optionstest.Uses(t, repository, "make") {
		for _, word := range use.Args {
			if strings.Contains(word, "=") {
				break // the rest is the value of a variable
			}
			if !slices.Contains(targets, word) {
				t.Errorf("%s: make has no target %s", use.File, word)
			}
			listed[word] = listed[word] || use.File == "CONTRIBUTING.md"
		}
	}
	for _, target := range targets {
		if !listed[target] {
			t.Errorf("CONTRIBUTING.md does not name make %s", target)
		}
	}
}

// TestRecipesNameExistingFilesAndTests of the table in CONTRIBUTING.md.
func TestRecipesNameExistingFilesAndTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, recipes, _ := strings.Cut(string(text), "\n## Recipes\n")
	recipes, _, _ = strings.Cut(recipes, "\n## ")
	tests := map[string]bool{}
	goFiles(t, func(name string, _ *token.FileSet, file *ast.File) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasSuffix(name, "_test.go") {
				tests[f.Name.Name] = true
			}
		}
	})
	found := 0
	for _, m := range quoted.FindAllStringSubmatch(recipes, -1) {
		switch name := m[1]; {
		case strings.HasPrefix(name, "Test"):
			if found++; !tests[name] {
				t.Errorf("the recipes name the test %s, which does not exist", name)
			}
		case strings.Contains(name, "/"):
			if _, err := os.Stat(filepath.Join(repository, name)); err != nil {
				t.Errorf("the recipes name a file that does not exist: %v", err)
			}
			found++
		}
	}
	if found < 30 {
		t.Errorf("%d files and tests were found", found)
	}
}

func TestCommandsOfReadmesHaveTests(t *testing.T) {
	var found []string
	goFiles(t, func(_ string, _ *token.FileSet, file *ast.File) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				found = append(found, f.Name.Name)
			}
		}
	})
	for command, test := range elsewhere {
		if test != "" && !slices.Contains(found, test) {
			t.Errorf("%s: no test %s", command, test)
		}
	}
}
