package llama

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"agentd/llama/synth"
)

// accepts says whether a grammar takes a whole text, token by token.
func accepts(t testing.TB, m *Model, gbnf, text string) bool {
	t.Helper()
	s, err := m.NewSampler(SamplerConfig{Grammar: gbnf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tok := range append(tokenize(t, m, text), m.Vocab().EOS()) {
		if err := s.Accept(tok); errors.Is(err, ErrRejected) {
			return false
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return true
}

func TestSchemaToGrammar(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	for _, tc := range []struct {
		rule, schema string
		yes, no      []string
	}{
		{"an object with required and optional members",
			`{"type":"object","properties":{"x":{"type":"integer"},"room":{"type":"string"}},"required":["x"],"additionalProperties":false}`,
			[]string{`{"x": 1}`, `{"x": -20, "room": "hall"}`}, []string{`{}`, `{"x": "1"}`, `{"room": "hall"}`, `{"x": 1, "y": 2}`, `{"x": 1`}},
		{"an enumeration", `{"enum":["red","green",3,null]}`, []string{`"red"`, `3`, `null`}, []string{`"blue"`, `4`}},
		{"an array with bounds", `{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":2}`, []string{`[true]`, `[true, false]`}, []string{`[]`, `[true, true, true]`}},
		{"alternatives", `{"anyOf":[{"type":"null"},{"const":"a"}]}`, []string{`null`, `"a"`}, []string{`"b"`}},
		{"a reference to itself", `{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}},"additionalProperties":false}}}`,
			[]string{`{}`, `{"next": {"next": {}}}`}, []string{`{"prev": {}}`}},
		{"constants with the spacing of json.dumps", `{"enum":[{"a":[1,{"b é":" , \" : "}],"c":{}},[],[1,"constantaaaa0"],"constantaaaa0","[1,2]"]}`,
			[]string{`{"a": [1, {"b é": " , \" : "}], "c": {}}`, `[]`, `[1, "constantaaaa0"]`, `"constantaaaa0"`, `"[1,2]"`},
			[]string{`{"a":[1,{"b é":" , \" : "}],"c":{}}`, `[1,"constantaaaa0"]`, `[ ]`, `"[1, 2]"`, `"constantbaaa0"`}},
		{"a constant that all parts have", `{"allOf":[{"enum":[[1,2],{"a":3}]},{"enum":[{"a":3},[4]]}]}`, []string{`{"a": 3}`}, []string{`[1, 2]`, `[4]`, `{"a":3}`}},
		{"constants behind a reference", `{"type":"array","items":{"$ref":"#/odd/0"},"odd":[{"const":{"a":[1,2]}}]}`,
			[]string{`[{"a": [1, 2]}, {"a": [1, 2]}]`}, []string{`[{"a":[1,2]}]`}},
		{"a pattern that looks like a constant", `{"type":"array","prefixItems":[{"const":[1,2]},{"type":"string","pattern":"^\"constantaaaa0\"|\\[1,2\\]$"}]}`,
			[]string{`[[1, 2], "[1,2]"]`, `[[1, 2], "\"constantaaaa0\" or more"]`}, []string{`[[1, 2], "[1, 2]"]`, `[[1, 2], ""constantaaaa0""]`}},
		{"a pattern", `{"type":"string","pattern":"^[a-z]{2,5}(-[0-9]+)?$"}`, []string{`"ab"`, `"abcde-12"`}, []string{`"a"`, `"abcdef"`, `"ab-"`, `ab`}},
		{"a pattern with classes of its own", `{"type":"string","pattern":"^\\d{3}\\w$"}`, []string{`"123_"`}, []string{`"12a_"`, `"123-"`}},
		{"a pattern that may match anywhere", `{"type":"string","pattern":"b+"}`, []string{`"b"`, `"a \"b\" \u00e9c"`, `"\ud7ffb"`}, []string{`"ac"`, `"a"b"`, `"`, `"b\ud800"`}},
		{"a dot in a pattern does not end the string", `{"type":"string","pattern":"^.+$"}`, []string{`"a\"b\\"`, `"é\t"`}, []string{`"a"b"`, `"a\"`, `""`, `"a\nb"`}},
		{"a pattern behind a reference, twice", `{"type":"array","items":{"$ref":"#/$defs/a"},"prefixItems":[],"$defs":{"a":{"type":"string","pattern":"^x$"}}}`,
			[]string{`["x", "x"]`, `[]`}, []string{`["y"]`}},
		{"a property called pattern", `{"type":"object","properties":{"pattern":{"const":"(?="}},"required":["pattern"]}`, []string{`{"pattern": "(?="}`}, []string{`{}`}},
		{"an empty pattern", `{"type":"string","pattern":""}`, []string{`""`, `"a"`}, []string{`1`}},
		{"anything", `{}`, []string{`{"a": [1, "b", null]}`, `{}`}, []string{`{`}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			gbnf, err := SchemaToGrammar([]byte(tc.schema))
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range tc.yes {
				if !accepts(t, m, gbnf, text) {
					t.Errorf("%s is not admitted by\n%s", text, gbnf)
				}
			}
			for _, text := range tc.no {
				if accepts(t, m, gbnf, text) {
					t.Errorf("%s is admitted by\n%s", text, gbnf)
				}
			}
		})
	}
}

func TestSchemaErrors(t *testing.T) {
	deep := strings.Repeat(`{"items":`, MaxSchemaNesting+1) + `{}` + strings.Repeat(`}`, MaxSchemaNesting+1)
	for _, tc := range []struct{ rule, schema string }{
		{"no JSON", `{"type":`},
		{"an empty text", ``},
		{"a reference to nothing", `{"$ref":"#/$defs/none"}`},
		{"a reference to another document", `{"$ref":"https://example.org/schema.json"}`},
		{"a type that does not exist", `{"type":"fish"}`},
		{"a pattern with look-ahead", `{"type":"string","pattern":"^(?=a)"}`},
		{"a pattern with a NUL", `{"type":"string","pattern":"^\u0000$"}`},
		{"a pattern that can be empty, repeated", `{"type":"string","pattern":"^(a*b*)*$"}`},
		{"a large pattern in many places", `{"anyOf":[` + strings.TrimSuffix(strings.Repeat(largePatterns(1)+",", 500), ",") + `]}`},
		{"patterns as large as no grammar may be", `{"anyOf":[` + largePatterns(500) + `]}`},
		{"integers from a larger to a smaller one", `{"type":"integer","minimum":5,"maximum":2}`},
		{"bounds in the wrong order", `{"type":"array","items":{"type":"null"},"minItems":5,"maxItems":2}`},
		{"bounds that no grammar can hold", `{"type":"string","minLength":1000000}`},
		{"too deep", deep},
		{"too large", `{"description":"` + strings.Repeat("x", MaxSchemaBytes) + `"}`},
		{"a NUL", "{\"type\":\"null\"}\x00"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if gbnf, err := SchemaToGrammar([]byte(tc.schema)); !errors.Is(err, ErrSchema) {
				t.Errorf("%v, grammar\n%s", err, gbnf)
			}
		})
	}
}

// largePatterns are n schemas of strings, each with a pattern of many thousand ranges.
func largePatterns(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"type":"string","pattern":"^%s%d$"}`, strings.Repeat(`\\p{L}`, 20), i)
	}
	return strings.Join(list, ",")
}

// refChain is a schema of n definitions, each made of the next by form.
func refChain(n int, form string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":%s,`, i, strings.ReplaceAll(form, "NEXT", fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)))
	}
	fmt.Fprintf(&b, `"d%d":{"type":"object","properties":{"x":{"type":"null"}}}}}`, n)
	return b.String()
}

// The converter ends the process or takes hours on these where nothing stops it.
func TestSchemasThatRepeatThemselvesAreRefused(t *testing.T) {
	long := strings.Repeat("é", 100000)
	var many strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&many, `"p%d":{},`, i)
	}
	for _, tc := range []struct{ rule, schema, want string }{
		{"a long way through references", refChain(5000, `{"type":"array","items":NEXT}`), "levels"},
		{"a long way through references of references", refChain(9000, `NEXT`), "levels"},
		{"a circle of references inside allOf", `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "circle"},
		{"a schema that contains itself by allOf", `{"type":"object","properties":{"a":{"allOf":[{"$ref":"#/$defs/n"}]}},` +
			`"$defs":{"n":{"type":"object","properties":{"n":{"allOf":[{"$ref":"#/$defs/n"}]}}}}}`, "allOf"},
		{"allOf that doubles", refChain(24, `{"type":"object","properties":{"a":{"allOf":[NEXT]},"b":{"allOf":[NEXT]}}}`), "sub-schemas"},
		{"lists of types that double", strings.Repeat(`{"type":["object","null"],"properties":{"a":`, 24) + `{}` + strings.Repeat(`}}`, 24), "sub-schemas"},
		{"a long property name", `{"type":"object","properties":{"` + long + `":{}}}`, "property name"},
		{"a long property name beside any others", `{"type":"object","properties":{"` + long + `":{}},"additionalProperties":true}`, "property name"},
		{"a long reference", `{"$ref":"#/$defs/` + long + `","$defs":{"` + long + `":{}}}`, "$ref"},
		{"thousands of optional properties", `{"type":"object","properties":{` + many.String() + `"x":{}}}`, "too large"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if _, err := SchemaToGrammar([]byte(tc.schema)); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want one about %s", err, tc.want)
			}
		})
	}
	for rule, schema := range map[string]string{
		"references a hundred deep":      refChain(100, `{"type":"object","properties":{"a":NEXT}}`),
		"a reference by allOf":           refChain(10, `{"allOf":[NEXT]}`),
		"the same definition used twice": refChain(30, `{"type":"object","properties":{"a":NEXT,"b":NEXT}}`),
	} {
		if _, err := SchemaToGrammar([]byte(schema)); err != nil {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

func FuzzSchemaToGrammar(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"x":{"type":"integer","minimum":-3,"maximum":900}},"required":["x"]}`))
	f.Add([]byte(`{"type":"string","pattern":"^[a-z]{2,5}(-[0-9]+)?$"}`))
	f.Add([]byte(`{"type":"string","pattern":"\\d[^\"a-c]|.*$"}`))
	f.Add([]byte(`{"allOf":[{"type":"object"},{"$ref":"#"}],"oneOf":[]}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		if len(schema) > 1000 {
			t.Skip()
		}
		gbnf, err := SchemaToGrammar(schema)
		switch {
		case err != nil && !errors.Is(err, ErrSchema):
			t.Fatal(err)
		case err == nil && !json.Valid(schema):
			t.Fatalf("%q gave a grammar", schema)
		case err == nil && ValidateGrammar(gbnf) != nil:
			t.Fatal(ValidateGrammar(gbnf))
		}
	})
}
