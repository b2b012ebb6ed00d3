package schema

import (
	"strings"
	"testing"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/gbnf/gbnftest"
	"agentd/agent/internal/tree"
	"agentd/protocol"
)

// parse makes the document of a schema in JSON.
func parse(source protocol.Raw) (*Document, error) { return New(tree.Parse(source)) }

// grammarOf is the grammar of a schema, its root in the rule root.
func grammarOf(t testing.TB, schema string, spacing gbnf.Spacing, o Options) (*Document, *gbnftest.Grammar, string) {
	t.Helper()
	d, err := parse(protocol.Raw(schema))
	if err != nil {
		t.Fatalf("%v in %s", err, schema)
	}
	g := gbnf.New(spacing)
	root, err := d.Add(g, o)
	if err != nil {
		t.Fatalf("%v in %s", err, schema)
	}
	g.Add("root", root)
	parsed, err := gbnftest.Parse(g.String())
	if err != nil {
		t.Fatalf("%v in\n%s", err, g)
	}
	return d, parsed, g.String()
}

func TestGrammars(t *testing.T) {
	for _, test := range []struct{ name, schema, yes, no string }{ // values one a line
		{"members in the order of their declaration", `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},"required":["b"]}`,
			`{"b": "x"}
			 {"a": 1, "b": "x"}
			 {"a": 1, "b": "x", "c": null}
			 {"b": "x", "c": null}`,
			`{}
			 {"b": "x", "a": 1}
			 {"a": 1,"b": "x"}
			 {"b": "x", "d": 1}`},
		{"optional members alone", `{"properties":{"a":{"const":1},"b":{"const":2}},"type":"object"}`,
			"{}\n{\"a\": 1}\n{\"b\": 2}\n{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": 1}\n{, \"b\": 2}"},
		{"members of any name", `{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"integer"}}`,
			"{}\n{\"x\": 1}\n{\"a\": \"s\", \"ab\": 2}", "{\"x\": \"s\"}\n{\"x\": 1, \"a\": 1}"},
		{"numbers within bounds", `{"minimum":-1.5,"maximum":12.25,"type":"number"}`,
			"-1.5\n-1.49\n-1\n0\n0.001\n12\n12.25\n12.250\n9.999\n-0.3", "-1.51\n12.26\n13\n-2\n12.2500001\n01"},
		{"numbers above a bound", `{"exclusiveMinimum":0.5,"type":"number"}`, "0.51\n0.5001\n1\n100.5", "0.5\n0\n0.50\n0.4999\n-3"},
		{"numbers below a bound", `{"exclusiveMaximum":10,"type":"number"}`, "9.99\n-3\n0\n9", "10\n10.0\n11\n100"},
		{"large bounds of integers", `{"type":"integer","minimum":100000000000000000001,"maximum":100000000000000000003}`,
			"100000000000000000001\n100000000000000000003", "100000000000000000000\n100000000000000000004\n1"},
		{"tuples", `{"type":"array","prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":3}`,
			"[1, 2, 3]\n[1, 2, 3, 3]", "[1, 2]\n[]\n[1, 2, 4]"},
		{"short tuples", `{"type":"array","prefixItems":[{"const":1},{"const":2}]}`, "[]\n[1]\n[1, 2]", "[2]\n[1, 2, 3]"},
		{"a list with a length", `{"type":"array","items":{"const":1},"minItems":1,"maxItems":3}`, "[1]\n[1, 1, 1]", "[]\n[1, 1, 1, 1]"},
		{"counts that are strings", `{"type":"array","items":{"const":1},"minItems":"1","maxItems":"3"}`, "[1]\n[1, 1, 1]", "[]\n[1, 1, 1, 1]"},
		{"pattern and length", `{"type":"string","pattern":"^[a-z]*$","minLength":2,"maxLength":3}`, "\"ab\"\n\"abc\"", "\"a\"\n\"abcd\"\n\"AB\""},
		{"no string has pattern and length", `{"type":["string","object"],"pattern":"^.$","minLength":2}`, "{}", "\"a\"\n\"ab\""},
		{"durations", `{"type":"string","format":"duration"}`, "\"P1W\"\n\"P1Y2M3D\"\n\"P2M\"\n\"P3DT4H\"\n\"PT5M6S\"\n\"PT7S\"", "\"P\"\n\"PT\"\n\"P1DT\"\n\"P1W2D\"\n\"PT1D\"\n\"P1H\""},
		{"look-aheads at the beginning of a pattern", `{"type":"string","pattern":"^(?!a)(?=.*\\d)[a-z\\d]+$","maxLength":3}`, "\"b1\"\n\"1a\"", "\"a1\"\n\"b\"\n\"b1-\""},
		{"a look-around beside a format", `{"type":"string","format":"date","pattern":"^2(?=0)"}`, "\"2024-01-02\"", "\"2024\""},
		{"names of a pattern with a look-ahead", `{"type":"object","patternProperties":{"^(?!a)[a-z]$":{"const":1}},"additionalProperties":false}`,
			"{\"b\": 1}", "{\"b\": 2}"},
		{"several patterns", `{"type":"string","allOf":[{"pattern":"a"},{"pattern":"b$"}]}`, "\"ab\"\n\"a\\\"b\"", "\"ba\"\n\"b\""},
		{"counted members", `{"type":"object","properties":{"a":{"const":1},"b":{"const":1},"c":{"const":1}},"minProperties":2,"maxProperties":2}`,
			"{\"a\": 1, \"b\": 1}\n{\"b\": 1, \"c\": 1}", "{\"a\": 1}\n{\"a\": 1, \"b\": 1, \"c\": 1}\n{}"},
		{"names by pattern", `{"type":"object","patternProperties":{"^x":{"const":1},"y$":{"enum":[1,2]}},"additionalProperties":false}`,
			"{\"x\": 1}\n{\"ay\": 2}\n{\"xy\": 1}", "{\"xy\": 2}\n{\"z\": 1}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, g, text := grammarOf(t, test.schema, gbnf.DumpsSpacing, Options{})
			for line := range strings.Lines(test.yes) {
				if line = strings.TrimSpace(line); !g.Admits("root", line) {
					t.Errorf("%s is not admitted by\n%s", line, text)
				}
			}
			for line := range strings.Lines(test.no) {
				if line = strings.TrimSpace(line); g.Admits("root", line) {
					t.Errorf("%s is admitted by\n%s", line, text)
				}
			}
		})
	}
}
