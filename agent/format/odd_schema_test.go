package format_test

import (
	"testing"

	"agentd/agent/tools"
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
				if err := k.model.ValidateGrammar(grammar); err != nil {
					t.Errorf("%v in\n%s", err, grammar)
				}
			})
		}
	}
}
