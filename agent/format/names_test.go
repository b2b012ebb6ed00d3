package format_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"agentd/agent/format"
	"agentd/llama/synth"
)

// TestEachFormatHasANameAndADocument finds the constants of format.go's first block.
func TestEachFormatHasANameAndADocument(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "format.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var constants []string
	for _, d := range file.Decls {
		block, ok := d.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST || constants != nil {
			continue
		}
		for _, spec := range block.Specs {
			text, err := strconv.Unquote(spec.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			constants = append(constants, text)
		}
	}
	if !slices.Equal(constants, format.Names) {
		t.Errorf("Names has %q, and the constants are %q: --model-format takes those of Names", format.Names, constants)
	}
	page, err := os.ReadFile("../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	options, err := os.ReadFile("../../docs/options.md")
	if err != nil {
		t.Fatal(err)
	}
	usage := regexp.MustCompile("(?m)^- `--model-format NAME`.*").Find(options)
	const plain = "{% for m in messages %}{{ m.content }}{% endfor %}"
	kit := newKit(t, synth.Qwen3, plain)
	for _, name := range constants {
		if !regexp.MustCompile("(?m)^\\| `" + name + "`").Match(page) {
			t.Errorf("docs/agent.md has no row for the format %s", name)
		}
		if !regexp.MustCompile(`\b` + name + `\b`).Match(usage) {
			t.Errorf("the text of --model-format lacks %s: %s", name, usage)
		}
		if resolved, err := format.Resolve(name, "", ""); err != nil || resolved != name {
			t.Errorf("%s resolves to %q, %v", name, resolved, err)
		}
		newFormat(t, name, format.Options{ChatTemplate: plain, ModelAPI: kit})
	}
}
