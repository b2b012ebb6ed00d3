package schema

import (
	"testing"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/gbnf/gbnftest"
	"agentd/protocol"
)

// FuzzAdd: whatever the schema, there is a grammar or an error.
func FuzzAdd(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"x":{"type":"integer","minimum":-3,"maximum":900}},"required":["x"]}`,
		`{"type":"string","pattern":"\\d[^\"a-c]|.*$","minLength":2}`, `{"allOf":[{"type":"object"},{"$ref":"#"}],"oneOf":[]}`,
		`{"$id":"http://a/b","$defs":{"x":{"$anchor":"y"}},"items":[{"$ref":"#y"}],"additionalItems":false}`,
		`{"patternProperties":{"^a":true},"propertyNames":{"enum":["a"]},"dependentSchemas":{"a":{"if":{},"then":false}}}`,
		`{"minimum":-1.25,"exclusiveMaximum":1e2,"multipleOf":0.01}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		schema := protocol.Raw(source)
		if len(source) > 1000 || !schema.IsValid() {
			t.Skip()
		}
		if err := schema.Compact(); err != nil {
			t.Skip()
		}
		d, err := parse(schema)
		if err != nil {
			return
		}
		g := gbnf.New(gbnf.AnySpacing)
		root, err := d.Add(g, Options{Object: len(source)%2 == 0})
		if err != nil {
			return
		}
		g.Add("root", root)
		if _, err := gbnftest.Parse(g.String()); err != nil {
			t.Fatalf("%v in\n%s", err, g)
		}
	})
}
