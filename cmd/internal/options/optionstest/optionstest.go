// Package optionstest finds the commands in the repository's documents, for tests that
// they exist.
package optionstest

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Use is one use of a program in a document.
type Use struct {
	File string // below the root of the repository
	Args []string
}

// Flags are the names of its options, without dashes.
func (u Use) Flags() (names []string) {
	for _, a := range u.Args {
		if name, ok := strings.CutPrefix(a, "--"); ok && name != "" {
			name, _, _ = strings.Cut(name, "=")
			names = append(names, name)
		}
	}
	return names
}

var (
	span       = regexp.MustCompile("`([^`\n]+)`")
	assignment = regexp.MustCompile(`^[A-Z_]+=`)
)

// Uses finds a program's uses in code blocks and code spans of the Markdown files below
// root. The results of past measurements are left out: their commands are as they were.
func Uses(t *testing.T, root, program string) (list []Use) {
	t.Helper()
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (file == "third_party" || file == "dist" || file == "bench/results" || d.Name() == "node_modules" || file != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || path.Ext(file) != ".md":
			return nil
		}
		text, err := fs.ReadFile(tree, file)
		for _, line := range code(string(text)) {
			for _, command := range strings.Split(line, "&&") {
				if args, ok := arguments(command, program); ok {
					list = append(list, Use{file, args})
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// code are the code spans of a document and the commands of its code blocks.
func code(text string) (list []string) {
	block, open := false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			block, open = !block, ""
		case block, strings.HasPrefix(line, "    "):
			line, _, _ = strings.Cut(line, "#")
			if more, ok := strings.CutSuffix(strings.TrimSpace(line), `\`); ok {
				open += more
				continue
			}
			list, open = append(list, open+line), ""
		default:
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				list = append(list, m[1])
			}
		}
	}
	return list
}

// arguments are a command's arguments if it runs the program.
func arguments(command, program string) ([]string, bool) {
	words := strings.Fields(command)
	for len(words) > 0 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) == 0 || strings.TrimPrefix(words[0], "./") != program {
		return nil, false
	}
	if end := slices.IndexFunc(words, func(w string) bool { return w == "|" || w == "&" }); end >= 0 {
		words = words[:end]
	}
	return words[1:], true
}
