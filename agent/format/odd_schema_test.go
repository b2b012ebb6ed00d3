//go:build !race

package format_test

import (
	"fmt"
	"strings"
	"testing"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/schema"
	"agentd/agent/internal/tree"
	"agentd/agent/tools"
	"agentd/llama/synth"
	"agentd/protocol"
)

// TestOddSchemas: schemas beyond the usual become a grammar that llama.cpp takes,
// or an error; never a crash, and never a grammar that it refuses.
func TestOddSchemas(t *testing.T) {
	for name, parameters := range map[string]string{
		"a schema that is its own parameter": `{"type":"object","properties":{"x":{"$ref":"#"}}}`,
		"definitions":                        `{"type":"object","properties":{"x":{"$ref":"#/$defs/p"}},"required":["x"],"$defs":{"p":{"type":"object","properties":{"n":{"type":"number"}}}}}`,
		"a definition that loops":            `{"type":"object","properties":{"x":{"$ref":"#/$defs/p"}},"$defs":{"p":{"$ref":"#/$defs/p"}}}`,
		"a reference to nothing":             `{"type":"object","properties":{"x":{"$ref":"#/$defs/p"}}}`,
		"types together":                     `{"type":"object","properties":{"x":{"type":["string","null"]},"y":{"type":["integer","boolean"]}}}`,
		"alternatives":                       `{"type":"object","properties":{"x":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"integer"}}]}}}`,
		"a pattern":                          `{"type":"object","properties":{"x":{"type":"string","pattern":"^[a-z]{2,4}$"}}}`,
		"a range":                            `{"type":"object","properties":{"x":{"type":"integer","minimum":-3,"maximum":12}}}`,
		"lengths":                            `{"type":"object","properties":{"x":{"type":"string","minLength":2,"maxLength":3},"y":{"type":"array","items":{},"minItems":1,"maxItems":2}}}`,
		"free members":                       `{"type":"object","properties":{},"additionalProperties":{"type":"number"}}`,
		"no types at all":                    `{"type":"object","properties":{"x":{},"y":true}}`,
		"constants and options":              `{"type":"object","properties":{"x":{"const":5},"y":{"enum":[1,"a",null]},"z":{"const":"q\"\n"}}}`,
		"names that look like rules":         `{"type":"object","properties":{"string":{"type":"string"},"root":{"type":"object","properties":{"value":{}}},"space":{"type":"integer"},"a b/é":{"type":"null"}}}`,
	} {
		for _, s := range setups {
			t.Run(name+", "+s.name, func(t *testing.T) {
				f, k := s.open(t)
				set, err := tools.Normalise([]protocol.Raw{protocol.Raw(`{"name":"odd","description":"D","parameters":` + parameters + `}`)}, []string{"a", "b"}, "robot")
				if err != nil {
					t.Log(err)
					return
				}
				grammar, err := f.Catalog(set).Grammar()
				if err != nil {
					t.Log(err)
					return
				}
				if err := checkGrammar(k.model, grammar); err != nil {
					t.Errorf("%v in\n%s", err, grammar)
				}
			})
		}
	}
}

// TestSchemasThatRepeatThemselves: what would be written out endlessly is shared or widened,
// and stays small enough for llama.cpp.
func TestSchemasThatRepeatThemselves(t *testing.T) {
	k := newKit(t, synth.Qwen3, "")
	chain := func(n int, form string) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
		for i := range n {
			fmt.Fprintf(&b, `"d%d":%s,`, i, strings.ReplaceAll(form, "NEXT", fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)))
		}
		fmt.Fprintf(&b, `"d%d":{"type":"object","properties":{"x":{"type":"null"}}}}}`, n)
		return b.String()
	}
	many := func(n int, one string) string {
		var list []string
		for i := range n {
			list = append(list, strings.ReplaceAll(one, "N", fmt.Sprint(i)))
		}
		return strings.Join(list, ",")
	}
	for name, source := range map[string]string{
		"a long way through references":       chain(1000, `{"type":"array","items":NEXT}`),
		"references of references":            chain(1000, `NEXT`),
		"allOf that doubles":                  chain(40, `{"type":"object","properties":{"a":{"allOf":[NEXT]},"b":{"allOf":[NEXT]}}}`),
		"anyOf that doubles":                  chain(40, `{"anyOf":[NEXT,NEXT,{"type":"null"}]}`),
		"alternatives that multiply":          `{"allOf":[` + many(20, `{"anyOf":[{"required":["aN"]},{"required":["bN"]},{"required":["cN"]}]}`) + `]}`,
		"dependents that multiply":            `{"type":"object","dependentRequired":{` + many(40, `"aN":["bN"]`) + `}}`,
		"recursion through intersections":     `{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"properties":{"x":{"$ref":"#/$defs/b"}}},{"properties":{"x":{"$ref":"#/$defs/a"}}}]},"b":{"properties":{"x":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]}}}}}`,
		"many optional members":               `{"type":"object","properties":{` + many(1500, `"pN":{}`) + `}}`,
		"many members that are counted":       `{"type":"object","minProperties":700,"properties":{` + many(900, `"pN":{}`) + `}}`,
		"lengths of many strings":             `{"type":"object","properties":{` + many(200, `"pN":{"type":"string","maxLength":1N}`) + `}}`,
		"a length beyond all grammars":        `{"type":"string","minLength":1000000,"maxLength":2000000}`,
		"a count beyond all lengths":          `{"type":"array","items":{"type":"null"},"minItems":1e30}`,
		"a pattern and a length":              `{"type":"string","pattern":"^([a-z]{3}){9}","maxLength":1900}`,
		"a pattern that can be empty, again":  `{"type":"string","pattern":"^(a*b*)*$"}`,
		"word boundaries":                     `{"type":"string","pattern":"\\ba\\b"}`,
		"many patterns of names":              `{"type":"object","patternProperties":{` + many(8, `"^xN":{"const":N}`) + `}}`,
		"a number with a bound of 400 digits": `{"type":"number","maximum":1e399}`,
		"options without number":              `{"enum":[` + many(3000, `"optionN"`) + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			d, err := schema.New(tree.Parse(protocol.Raw(source)))
			if err != nil {
				t.Fatal(err)
			}
			g := gbnf.New(gbnf.DumpsSpacing)
			root, err := d.Add(g, schema.Options{})
			if err != nil {
				t.Fatal(err)
			}
			g.Add("root", root)
			if err := checkGrammar(k.model, g.String()); err != nil {
				t.Errorf("%v in %.3000s", err, g)
			}
			if n := len(g.String()); n > 1<<20 {
				t.Errorf("the grammar has %d bytes", n)
			}
		})
	}
}
