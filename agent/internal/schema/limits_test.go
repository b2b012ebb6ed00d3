package schema

import (
	"fmt"
	"strings"
	"testing"

	"agentd/agent/internal/gbnf"
	"agentd/protocol"
)

func TestSchemasWithoutValues(t *testing.T) {
	for _, test := range []struct{ name, schema, err string }{
		{"false", `false`, "no value fits parameters"},
		{"a bound above another", `{"type":"integer","minimum":5,"maximum":2}`, "no value fits parameters"},
		{"no integer between bounds", `{"type":"integer","minimum":0.2,"maximum":0.8}`, "no value fits parameters"},
		{"lengths that contradict each other", `{"type":"array","minItems":5,"maxItems":2}`, "no value fits"},
		{"patterns that contradict each other", `{"type":"string","allOf":[{"pattern":"^a"},{"pattern":"^b"}]}`, "no value fits"},
		{"options that the type refuses", `{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"integer","enum":["x"]}},"required":["b"]}},"required":["a"]}`, "no value fits parameters.a.b"},
		{"a value that contains itself", `{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`, "contains itself endlessly"},
		{"references in a circle", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "no value fits"},
		{"a member that is required and forbidden", `{"type":"object","properties":{"a":{}},"required":["a","b"],"additionalProperties":false}`, "no value fits parameters.b"},
		{"a reference to nothing", `{"$ref":"#/$defs/none"}`, "leads to nothing"},
		{"a reference to another document", `{"$ref":"https://example.org/schema.json"}`, "another document"},
		{"an anchor that is none", `{"$ref":"#none"}`, "no such anchor"},
		{"a bound beyond all numbers", `{"minimum":1e999}`, "exponent beyond 400"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := Parse(protocol.Raw(test.schema))
			if err == nil {
				_, err = d.Add(gbnf.New(gbnf.DumpsSpacing), Options{})
			}
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want one with %q", err, test.err)
			}
		})
	}
}

func TestManyValuesAreWidenedToTheirTypes(t *testing.T) {
	for n, want := range map[int]bool{maxValues: false, maxValues + 1: true} {
		values := make([]string, n)
		for i := range values {
			values[i] = fmt.Sprintf(`"v%d"`, i)
		}
		d, err := Parse(protocol.Raw(`{"anyOf":[{"enum":[` + strings.Join(values[:n/2], ",") + `]},{"enum":[` + strings.Join(values[n/2:], ",") + `]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		g := gbnf.New(gbnf.DumpsSpacing)
		root, err := d.Add(g, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if widened := root == gbnf.AnyString || !strings.Contains(g.String(), "v7"); widened != want || strings.Contains(g.String(), gbnf.AnyNumber+" ::=") {
			t.Errorf("%d values: widened %t", n, widened)
		}
		if _, err := d.Validate(protocol.Raw(`"other"`)); err == nil {
			t.Errorf("%d values: the check takes another one", n)
		}
	}
}

// TestManyValuesAreNotCheckedOneByOne: that would take time with the square of their number.
func TestManyValuesAreNotCheckedOneByOne(t *testing.T) {
	values := strings.Repeat(`1,`, maxValues) + `1`
	d, err := Parse(protocol.Raw(`{"enum":[` + strings.ReplaceAll(values, "1,1", `1,"a"`) + `],"minLength":2}`))
	if err == nil {
		err = d.Usable()
	}
	if err != nil {
		t.Fatal(err)
	}
	m := d.compiler(Options{})
	r := m.rule(d.root)
	m.build(r)
	if len(r.texts) != 1 || len(r.numbers) != 1 || len(r.values) != 0 {
		t.Errorf("%d texts, %d numbers, %d values", len(r.texts), len(r.numbers), len(r.values))
	}
}
