package prompt

import (
	"fmt"
	"strings"
	"testing"

	"agentd/coaching/repair"
	"agentd/protocol"
)

func TestArgumentsAreWrittenForStrictModes(t *testing.T) {
	object := func(properties, required string) string {
		return `{"type":"object","properties":{` + properties + `},"required":[` + required + `],"additionalProperties":false}`
	}
	orNull := func(schema string) string { return `{"anyOf":[` + schema + `,{"type":"null"}]}` }
	const text = `{"type":"string"}`
	for name, c := range map[string]struct{ schema, want string }{ // "" is a text
		"no arguments":       {`{"type":"object","properties":{}}`, object("", "")},
		"required":           {`{"type":"object","properties":{"a":{"type":"string","minLength":2,"pattern":"x"}},"required":["a"]}`, object(`"a":`+text, `"a"`)},
		"optional":           {`{"type":"object","properties":{"a":{"type":"string"}}}`, object(`"a":`+orNull(text), `"a"`)},
		"a colon in a name":  {`{"type":"object","properties":{"a:b":{"type":"string"}},"required":["a:b"]}`, object(`"a:b":`+text, `"a:b"`)},
		"names":              {`{"type":"object","properties":{"a":{"enum":["x","y"]}},"required":["a"]}`, object(`"a":{"type":"string","enum":["x","y"]}`, `"a"`)},
		"numbers":            {`{"type":"object","properties":{"a":{"enum":[1,2.50]}},"required":["a"]}`, object(`"a":{"type":"number","enum":[1,2.50]}`, `"a"`)},
		"a constant":         {`{"type":"object","properties":{"a":{"const":"x"}},"required":["a"]}`, object(`"a":{"type":"string","enum":["x"]}`, `"a"`)},
		"several types":      {`{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"]}`, object(`"a":`+orNull(text), `"a"`)},
		"alternatives":       {`{"type":"object","properties":{"a":{"oneOf":[{"type":"string"},{"type":"integer"}]}},"required":["a"]}`, object(`"a":{"anyOf":[`+text+`,{"type":"integer"}]}`, `"a"`)},
		"a list":             {`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"},"minItems":2}},"required":["a"]}`, object(`"a":{"type":"array","items":`+text+`}`, `"a"`)},
		"an object":          {`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"}}}},"required":["a"]}`, object(`"a":`+object(`"b":`+orNull(text), `"b"`), `"a"`)},
		"a definition":       {`{"type":"object","properties":{"a":{"$ref":"#/$defs/x~1y"}},"required":["a"],"$defs":{"x/y":{"type":"string"}}}`, object(`"a":`+text, `"a"`)},
		"recursion":          {`{"type":"object","properties":{"a":{"$ref":"#"}}}`, ""},
		"wide recursion":     {`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"}]}},"$defs":{"x":{"anyOf":[{"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"}]}}}`, ""},
		"a lost reference":   {`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}}}`, ""},
		"any object":         {`{"type":"object","properties":{"a":{"type":"object"}}}`, ""},
		"other arguments":    {`{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`, ""},
		"any value":          {`{"type":"object","properties":{"a":{}}}`, ""},
		"any items":          {`{"type":"object","properties":{"a":{"type":"array"}}}`, ""},
		"all of":             {`{"type":"object","properties":{"a":{"allOf":[{"type":"string"}]}}}`, ""},
		"constants of kinds": {`{"type":"object","properties":{"a":{"enum":["x",1]}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := strictArguments(protocol.Raw(c.schema))
			if ok != (c.want != "") || ok && got != c.want {
				t.Errorf("got %s, %t, want %s", got, ok, c.want)
			}
			if ok {
				checkStrict(t, protocol.Raw(got))
			}
		})
	}
}

// catalog is a case whose only point has tools with these parameters.
func catalog(t *testing.T, parameters ...string) *repair.Case {
	t.Helper()
	var list []string
	for i, p := range parameters {
		list = append(list, fmt.Sprintf(`{"name":"tool_%d","description":"It does.","parameters":%s}`, i, p))
	}
	req, err := protocol.DecodeSpecializedCoachingRequest([]byte(`{"run_id":"r","request_id":"c","kind":"failure","stage":"goal","target_step_id":1,
		"trajectory":[{"id":1,"input":{"id":1,"instruction":{"type":"user","content":"Go."},"tools":[` + strings.Join(list, ",") + `]}}],
		"reinjection_points":[{"id":"here","input_step_id":1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return repair.NewCase(req)
}

func TestEachCallHasItsOwnArguments(t *testing.T) {
	q := Question(catalog(t, `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, `{"type":"object","properties":{"b":{"type":"object"}}}`), 0)
	for _, want := range []string{
		`"name":{"type":"string","const":"tool_0"},"arguments":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`,
		`"name":{"type":"string","const":"tool_1"},"arguments":` + textArguments,
	} {
		if !strings.Contains(string(q.Schema), want) {
			t.Errorf("%s is missing in %s", want, q.Schema)
		}
	}
	checkStrict(t, q.Schema)
}

func TestExactSchemaHasArgumentsOfToolsWithReferences(t *testing.T) {
	q := Question(catalog(t, `{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"required":["a"],"$defs":{"x":{"enum":["p","q"]}}}`), 0)
	if want := `"a":{"type":"string","enum":["p","q"]}`; !strings.Contains(string(q.Exact), want) {
		t.Errorf("%s is missing in %s", want, q.Exact)
	}
}

func TestGiantCatalogsHaveTextsAsArguments(t *testing.T) {
	one := `{"type":"object","properties":{"a":{"type":"integer"}}}`
	for name, c := range map[string]struct{ tools, budget int }{"many tools": {400, 0}, "a small budget": {40, minBudget}} {
		var all []string
		for range c.tools {
			all = append(all, one)
		}
		q := Question(catalog(t, all...), c.budget)
		if !strings.Contains(string(q.Schema), `"arguments":`+textArguments) || strings.Contains(string(q.Schema), "const") || len(q.Schema) > maxPortable {
			t.Errorf("%s: %.2000s", name, q.Schema)
		}
		checkStrict(t, q.Schema)
	}
}
