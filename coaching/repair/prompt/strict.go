package prompt

import (
	"net/url"
	"slices"
	"strings"

	"agentd/protocol"
)

// strictSchema writes a tool's schema in the subset that strict modes of endpoints take: types,
// enumerations, lists, alternatives, and objects that require all of their properties and allow no
// others. An optional property may be null, and the reader of the answer drops it then. Bounds and
// patterns are left out. The check of the decision applies them.
type strictSchema struct {
	root protocol.Raw // that references point into
	left int          // schemas that may still be written; references can multiply them
}

// strictArguments is a tool's schema in the strict subset. ok is false if it can't be written so,
// such as an object with any properties.
func strictArguments(schema protocol.Raw) (text string, ok bool) {
	s := &strictSchema{root: schema, left: maxStrictSchemas}
	return s.object(schema, maxStrictDepth)
}

func (s *strictSchema) value(schema protocol.Raw, depth int) (text string, ok bool) {
	if s.left--; s.left < 0 || depth == 0 || schema.Kind() != '{' {
		return "", false
	}
	get := func(name string) protocol.Raw { v, _ := protocol.Get(schema, name); return v }
	if ref, isRef := protocol.Text(get("$ref")); isRef {
		target, found := s.resolve(ref)
		if !found {
			return "", false
		}
		return s.value(target, depth-1)
	}
	for _, keyword := range []string{"allOf", "not", "if", "prefixItems", "patternProperties"} {
		if get(keyword) != nil {
			return "", false
		}
	}
	if value := get("const"); value != nil {
		return constants([]protocol.Raw{value})
	}
	if list := get("enum"); list.Kind() == '[' {
		return constants(slices.Collect(protocol.Elements(list)))
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list := get(keyword); list.Kind() == '[' {
			if get("properties") != nil {
				return "", false
			}
			return s.alternatives(slices.Collect(protocol.Elements(list)), depth)
		}
	}
	switch typ := get("type"); typ.Kind() {
	case '[':
		var each []protocol.Raw
		for one := range protocol.Elements(typ) {
			each = append(each, protocol.SetMember(schema, "type", one))
		}
		return s.alternatives(each, depth)
	case '"':
		switch name, _ := protocol.Text(typ); name {
		case "string", "integer", "number", "boolean", "null":
			return `{"type":"` + name + `"}`, true
		case "array":
			items, ok := s.value(get("items"), depth)
			return `{"type":"array","items":` + items + `}`, ok
		case "object":
			if get("properties") == nil {
				return "", false // any object
			}
			return s.object(schema, depth)
		}
	}
	return "", false
}

// object writes an object with the properties that a schema declares.
func (s *strictSchema) object(schema protocol.Raw, depth int) (string, bool) {
	if others, said := protocol.Get(schema, "additionalProperties"); said && string(others) != "false" {
		return "", false
	}
	if _, said := protocol.Get(schema, "patternProperties"); said {
		return "", false
	}
	var required, names, members []string
	list, _ := protocol.Get(schema, "required")
	for name := range protocol.Elements(list) {
		text, _ := protocol.Text(name)
		required = append(required, text)
	}
	properties, _ := protocol.Get(schema, "properties")
	for name, property := range protocol.Members(properties) {
		text, ok := s.value(property, depth-1)
		if !ok {
			return "", false
		}
		if !slices.Contains(required, name) && text != nullType {
			text = `{"anyOf":[` + text + `,` + nullType + `]}`
		}
		names = append(names, name)
		members = append(members, string(protocol.String(name))+":"+text)
	}
	return `{"type":"object","properties":{` + strings.Join(members, ",") + `},"required":` + enum(names) + `,"additionalProperties":false}`, true
}

const nullType = `{"type":"null"}`

func (s *strictSchema) alternatives(list []protocol.Raw, depth int) (string, bool) {
	var each []string
	for _, one := range list {
		text, ok := s.value(one, depth)
		if !ok {
			return "", false
		}
		each = append(each, text)
	}
	if len(each) < 2 {
		return strings.Join(each, ""), len(each) == 1
	}
	return `{"anyOf":[` + strings.Join(each, ",") + `]}`, true
}

// constants writes an enumeration of values of one type. Endpoints want the type beside it.
func constants(list []protocol.Raw) (string, bool) {
	if len(list) == 0 {
		return "", false
	}
	var texts []string
	for _, v := range list {
		text, isText := protocol.Text(v)
		if v.Kind() != list[0].Kind() && (!isBool(v) || !isBool(list[0])) {
			return "", false
		}
		if isText {
			texts = append(texts, text)
		}
	}
	switch {
	case list[0].Kind() == '"':
		return `{` + stringType(texts) + `}`, true
	case list[0].Kind() == '0':
		return `{"type":"number","enum":` + string(protocol.AppendElements(nil, list...)) + `}`, len(list) <= maxEnum
	case isBool(list[0]):
		return `{"type":"boolean"}`, true
	case list[0].Kind() == 'n':
		return nullType, true
	}
	return "", false
}

func isBool(v protocol.Raw) bool { return v.Kind() == 't' || v.Kind() == 'f' }

// resolve finds what a reference within the tool's schema points to.
func (s *strictSchema) resolve(ref string) (protocol.Raw, bool) {
	pointer, local := strings.CutPrefix(ref, "#")
	pointer, err := url.PathUnescape(pointer)
	if !local || err != nil || pointer != "" && pointer[0] != '/' {
		return nil, false
	}
	at := s.root
	for _, token := range strings.Split(pointer, "/")[1:] {
		next, there := protocol.Get(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
		if !there {
			return nil, false
		}
		at = next
	}
	return at, true
}
