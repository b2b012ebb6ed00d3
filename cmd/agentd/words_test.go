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
	"strings"
	"testing"
)

// badWord is an expression that reads as translated.
type badWord struct {
	wrong  *regexp.Regexp
	right  *regexp.Regexp // same words, rightly used; nil for none
	better string
}

// wordList reads a list of testdata/words, without comments.
func wordList(t *testing.T, name string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "words", name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

func badWords(t *testing.T) (list []badWord) {
	t.Helper()
	compile := func(expression string) *regexp.Regexp {
		return regexp.MustCompile(`(?i)` + strings.ReplaceAll(expression, " ", `\s+`))
	}
	for _, line := range wordList(t, "list.txt") {
		wrong, rest, ok := strings.Cut(line, " = ")
		better, right, excepts := strings.Cut(rest, " | ")
		if !ok {
			t.Fatalf("list.txt: %q has no = and better words", line)
		}
		word := badWord{wrong: compile(strings.TrimSpace(wrong)), better: better}
		if excepts {
			word.right = compile(right)
		}
		list = append(list, word)
	}
	return list
}

// find returns the places of a word in a text.
func (w *badWord) find(text string) (at [][]int) {
	var right [][]int
	if w.right != nil {
		right = w.right.FindAllStringIndex(text, -1)
	}
	for _, m := range w.wrong.FindAllStringIndex(text, -1) {
		if !slices.ContainsFunc(right, func(r []int) bool { return r[0] < m[1] && m[0] < r[1] }) {
			at = append(at, m)
		}
	}
	return at
}

// Texts of files in which only some parts are for readers.
var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```|`[^`\n]*`")
	cppText  = regexp.MustCompile(`(?s)//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"`)
	markings = regexp.MustCompile(`(?m)^[ \t]*(//|\*|#)`)
)

// readable replaces what is not for readers by spaces: code, but for comments and strings. Of
// tests only comments are read. Lines stay.
func readable(t *testing.T, name, source string) string {
	t.Helper()
	blank := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, strings.ToValidUTF8(s, " "))
	}
	var parts [][]int
	switch path.Ext(name) {
	case ".md":
		return fence.ReplaceAllStringFunc(source, blank)
	case ".go":
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		add := func(n ast.Node) {
			parts = append(parts, []int{fset.Position(n.Pos()).Offset, fset.Position(n.End()).Offset})
		}
		for _, c := range file.Comments {
			add(c)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && !strings.HasSuffix(name, "_test.go") {
				add(s)
			}
			return true
		})
		slices.SortFunc(parts, func(a, b []int) int { return a[0] - b[0] })
	default:
		parts = cppText.FindAllStringIndex(source, -1)
	}
	var out strings.Builder
	end := 0
	for _, p := range parts {
		// A mark keeps words of different comments and strings apart.
		out.WriteString(strings.TrimSuffix(blank(source[end:p[0]]), " ") + "\x00")
		out.WriteString(markings.ReplaceAllStringFunc(source[p[0]:p[1]], blank))
		end = p[1]
	}
	return out.String()
}

// TestWordsReadAsEnglish in documents, comments, help and error texts.
func TestWordsReadAsEnglish(t *testing.T) {
	words, allowed := badWords(t), wordList(t, "allowed.txt")
	used := map[string]bool{}
	count := 0
	isAllowed := func(name, line string) bool {
		i := slices.IndexFunc(allowed, func(entry string) bool {
			place, text, _ := strings.Cut(entry, ": ")
			return strings.HasPrefix(name, place) && strings.Contains(line, text)
		})
		if i >= 0 {
			used[allowed[i]] = true
		}
		return i >= 0
	}
	tree := os.DirFS(repository)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		hidden := name != "." && strings.HasPrefix(d.Name(), ".")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (hidden || slices.Contains([]string{"third_party", "dist", "testdata", "node_modules"}, d.Name())):
			return fs.SkipDir
		case d.IsDir() || !slices.Contains([]string{".go", ".md", ".c", ".cpp", ".h"}, path.Ext(name)):
			return nil
		}
		count++
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		text := readable(t, name, string(source))
		for _, w := range words {
			for _, m := range w.find(text) {
				number := 1 + strings.Count(text[:m[0]], "\n")
				line := strings.Split(string(source), "\n")[number-1]
				if !isAllowed(name, line) {
					found := strings.Join(strings.Fields(text[m[0]:m[1]]), " ")
					t.Errorf("%s:%d: %q; better: %s", name, number, found, w.better)
				}
			}
		}
		return nil
	})
	if err != nil || count < 500 {
		t.Fatalf("%d files were read: %v", count, err)
	}
	for _, entry := range allowed {
		if !used[entry] {
			t.Errorf("allowed.txt: %q allows nothing; remove it", entry)
		}
	}
}

func TestWordsAreFoundInTextForReadersOnly(t *testing.T) {
	words := badWords(t)
	for _, test := range []struct {
		name, file, source string
		found              int
	}{
		{"a comment over two lines", "a.go", "package a\n\n// x is\n// no file\nvar x int", 1},
		{"an error text", "a.go", "package a\n\nvar x = \"it is no URL\"", 1},
		{"a string of a test", "a_test.go", "package a\n\nvar x = \"it is no URL\"", 0},
		{"a name", "a.go", "package a\n\nvar behind, tells int", 0},
		{"words of two comments", "a.go", "package a\n\nvar x int // is\n\nvar y int // no file", 0},
		{"a comment in C++", "a.cpp", "int behind; // the end\n  // lies\n  // in the file", 1},
		{"a string in C++", "a.cpp", "throw error(\"is no model\");", 1},
		{"prose", "a.md", "The cell behind it tells the\nposition.", 2},
		{"code", "a.md", "```\nbehind\n```\n\nUse `behind`.", 0},
		{"a right use", "a.md", "There is no file. It is no longer there. It runs behind a proxy.", 0},
		{"a right use before a wrong one", "a.md", "It runs behind a proxy, behind it.", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, found := readable(t, test.file, test.source), 0
			for _, w := range words {
				found += len(w.find(text))
			}
			if found != test.found {
				t.Errorf("%d words were found in %q, want %d", found, text, test.found)
			}
		})
	}
}
