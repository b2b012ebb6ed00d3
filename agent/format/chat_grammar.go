package format

import (
	"fmt"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/rawjson"
	"agentd/protocol"
)

// answerRule adds the rules of the JSON values that a schema admits, or of a plain
// text without a schema, and returns their root. Where a part of the schema has no grammar, such as a pattern with
// look-ahead, any value of that part's type is admitted: whoever asks checks the answer
// anyway, and a free argument is better than no answer.
func answerRule(g *gbnf.Grammar, kit Toolkit, schema protocol.Raw) (string, error) {
	if schema == nil {
		g.AddText("answer", gbnf.Text{Forbidden: textMarks, NonBlank: true, NotFirst: "{"})
		return "answer", nil
	}
	text, err := kit.SchemaGrammar(schema)
	if err != nil {
		l := loosener{kit: kit, left: maxLoosened}
		text, err = kit.SchemaGrammar(l.parts(schema))
	}
	if err != nil {
		text, err = kit.SchemaGrammar(anyObject)
	}
	if err != nil {
		return "", fmt.Errorf("the answer's schema can't be made a grammar: %w", err)
	}
	return g.Import("answer-", text)
}

var anyObject = protocol.Raw(`{"type":"object"}`)

// loosener replaces the parts of a schema that have no grammar.
type loosener struct {
	kit  Toolkit
	left int // parts that may still be tried
}

// loosen is the part itself, if it has a grammar, else one that admits more. A
// reference leads nowhere on its own, so it counts as a part without a grammar.
func (l *loosener) loosen(part protocol.Raw) protocol.Raw {
	if l.fits(part) {
		return part
	}
	if inner := l.parts(part); string(inner) != string(part) && l.fits(inner) {
		return inner
	}
	return typeOnly(part)
}

func (l *loosener) fits(part protocol.Raw) bool {
	if l.left == 0 || strings.Contains(string(part), `"$ref"`) {
		return false
	}
	l.left--
	_, err := l.kit.SchemaGrammar(part)
	return err == nil
}

// parts is the schema with all parts of it loosened.
func (l *loosener) parts(schema protocol.Raw) protocol.Raw {
	return eachMember(schema, func(key string, value protocol.Raw) protocol.Raw {
		switch key {
		case "properties", "$defs", "definitions":
			return eachMember(value, func(_ string, part protocol.Raw) protocol.Raw { return l.loosen(part) })
		case "anyOf", "oneOf", "allOf", "prefixItems":
			if value.Kind() != '[' {
				return value
			}
			var list []protocol.Raw
			for part := range protocol.Elements(value) {
				list = append(list, l.loosen(part))
			}
			return rawList(list)
		case "items", "additionalProperties":
			if value.Kind() == '{' {
				return l.loosen(value)
			}
		}
		return value
	})
}

// eachMember is an object with the values that f makes of its own, or v itself
// when it is no object.
func eachMember(v protocol.Raw, f func(name string, value protocol.Raw) protocol.Raw) protocol.Raw {
	if v.Kind() != '{' {
		return v
	}
	out := append(make(protocol.Raw, 0, len(v)), '{')
	for name, value := range protocol.Members(v) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(rawjson.AppendString(out, name), ':')
		out = append(out, f(name, value)...)
	}
	return append(out, '}')
}

// typeOnly admits all values of a schema's type, or any value.
func typeOnly(schema protocol.Raw) protocol.Raw {
	switch name := text(schema, "type"); name {
	case "string", "integer", "number", "boolean", "null", "array", "object":
		return protocol.AppendMember(protocol.Raw("{}"), "type", protocol.String(name))
	}
	return protocol.Raw("{}")
}
