package schema

import (
	"fmt"
	"math/rand/v2"
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
		{"a required member that no pattern leaves a name", `{"type":"object","minProperties":1,"patternProperties":{"":false}}`, "no value fits"},
		{"names that are too short for their pattern", `{"type":"object","minProperties":1,"propertyNames":{"pattern":"^a","maxLength":0}}`, "no value fits"},
		{"a reference to nothing", `{"$ref":"#/$defs/none"}`, "leads to nothing"},
		{"a reference to another document", `{"$ref":"https://example.org/schema.json"}`, "another document"},
		{"an anchor that is none", `{"$ref":"#none"}`, "no such anchor"},
		{"a bound beyond all numbers", `{"minimum":1e999}`, "exponent beyond 400"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := parse(protocol.Raw(test.schema))
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
		d, err := parse(protocol.Raw(`{"anyOf":[{"enum":[` + strings.Join(values[:n/2], ",") + `]},{"enum":[` + strings.Join(values[n/2:], ",") + `]}]}`))
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
	d, err := parse(protocol.Raw(`{"enum":[` + strings.ReplaceAll(values, "1,1", `1,"a"`) + `],"minLength":2}`))
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

// TestChecksTakeAStepForEachSchemaAndByte at most, where no schema refers to another.
func TestChecksTakeAStepForEachSchemaAndByte(t *testing.T) {
	const enough = 1 << 30
	most := 0.0
	for seed := range uint64(2000) {
		d := &drawer{Rand: rand.New(rand.NewPCG(seed, 7))}
		source := d.schema(4)
		document, err := parse(protocol.Raw(source))
		if err != nil || document.Usable() != nil || document.steps == 0 {
			continue
		}
		value := protocol.Raw(d.value(4))
		doc, err := decode(value)
		if err != nil {
			t.Fatal(err)
		}
		c := counter{left: enough}
		c.visit(doc, document.schema)
		took, bound := enough-c.left, document.steps*len(value)
		if took > bound {
			t.Errorf("%s takes %d steps of %s, more than %d", value, took, source, bound)
		}
		most = max(most, float64(took)/float64(bound))
	}
	if most < 0.5 {
		t.Errorf("the checks take %g of the bound at most, so few were tried", most)
	}
}
