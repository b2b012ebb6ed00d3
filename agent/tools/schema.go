package tools

import (
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/rawjson"
	"agentd/agent/internal/schema"
	"agentd/agent/internal/tree"
	"agentd/protocol"
)

// typeNames maps type names that clients use, in lower case, to JSON Schema's.
var typeNames = map[string]string{
	"string": "string", "str": "string",
	"integer": "integer", "int": "integer", "long": "integer", "short": "integer", "byte": "integer",
	"number": "number", "float": "number", "double": "number",
	"boolean": "boolean", "bool": "boolean",
	"array": "array", "list": "array", "tuple": "array", "arraylist": "array",
	"object": "object", "dict": "object", "hashmap": "object", "map": "object",
	"null": "null", // of JSON Schemas
}

// objectSchema returns the JSON Schema of a tool's arguments. parameters is such a schema, or a map of
// names to {description, type}, in which the names in optional are not required.
func objectSchema(parameters, optional protocol.Raw) (*tree.Value, error) {
	if parameters == nil || parameters.Kind() == 'n' {
		return tree.Parse(protocol.Raw(`{"type":"object","properties":{}}`)), nil
	}
	if parameters.Kind() != '{' {
		return nil, fmt.Errorf("parameters must be an object, not %s", rawjson.KindName(parameters))
	}
	if n := subschemas(parameters); n > MaxSubschemas {
		return nil, fmt.Errorf("its parameters hold %d schemas, but at most %d are possible", n, MaxSubschemas)
	}
	whole := tree.Parse(parameters)
	if !isSchema(whole) {
		return mapSchema(whole, optional)
	}
	if typ := whole.Get("type"); typ.Kind != 0 && typ.Kind != 'n' {
		if err := objectType(typ, "parameters"); err != nil {
			return nil, err
		}
	}
	whole = translated(whole)
	if !whole.Has("type") {
		whole = whole.With("type", tree.String("object"))
	}
	switch props := whole.Get("properties"); {
	case props.Kind == 0:
		whole = whole.With("properties", tree.Object())
	case props.Kind != '{':
		return nil, fmt.Errorf("parameters.properties must be an object, not %s", props.KindName())
	}
	return whole, nil
}

// subschemas counts the objects and booleans in a valid JSON value, since each may be a schema.
func subschemas(v protocol.Raw) int {
	n := 0
	for c := range unquoted(v) {
		if c == '{' || c == 't' || c == 'f' { // true, false: no other word has these letters
			n++
		}
	}
	return n
}

// isSchema distinguishes a JSON Schema from a map of parameters. A keyword counts if its value has the form that the
// keyword needs. Parameters may be named like keywords, so most keywords count only if all members are keywords.
func isSchema(parameters *tree.Value) bool {
	keywords, others := 0, 0
	for _, m := range parameters.Members {
		switch form := formOf(m); {
		case m.Name == "type" && namesObject(m.Value), form == surely:
			return true
		case form == likely:
			keywords++
		case form == no && isParameter(m):
			others++
		case schema.KindOf(m.Name) == schema.Unknown && !slices.Contains(annotations, m.Name) && (m.Kind == '{' || m.Kind == '"'):
			others++
		}
	}
	return keywords > 0 && others == 0
}

// isParameter reports whether a member named like a keyword can only be a parameter.
func isParameter(m tree.Member) bool {
	text, _ := m.Text()
	return typeOf(text) != nil || schema.KindOf(m.Name) != schema.Schemas && m.Kind == '{' && describesParameter(m.Value)
}

// form is how certain it is that a member is a keyword and not a parameter.
type form int

const (
	no     form = iota
	likely      // a parameter may have the same name and form
	surely
)

func formOf(m tree.Member) form {
	name, value, kind := m.Name, m.Value, m.Kind
	text, _ := m.Text()
	typed := typeOf(text) != nil // a parameter's type
	when := func(holds bool, then form) form {
		if holds {
			return then
		}
		return no
	}
	switch name {
	case "$ref", "$schema":
		return when(kind == '"', surely)
	case "allOf", "anyOf", "oneOf":
		return when(kind == '[', surely)
	case "properties":
		return when(valuesAre(value, "{[tfn0"), surely)
	case "type":
		return when(kind == '"' || kind == '[', likely)
	case "enum", "required", "examples":
		return when(kind == '[', likely)
	case "const", "default":
		return when(kind != '{' && kind != '"' && kind != 'n', likely)
	case "items", "prefixItems", "contains", "not", "if", "then", "else":
		// Words that parameters have, too.
		return when(kind == '[' || kind == 't' || kind == 'f' || kind == '{' && !describesParameter(value), likely)
	}
	switch is := schema.KindOf(name); {
	case (name == "dependentRequired" || name == "dependencies") && !value.Has("enum") && valuesAre(value, "["):
		return likely
	case is == schema.Schemas:
		return when(kind == '{' || kind == 't' || kind == 'f', likely)
	case is == schema.SchemasByName:
		return when(valuesAre(value, "{tf"), likely)
	case is == schema.Unknown:
		return when(slices.Contains(annotations, name) && (kind == '"' && !typed || kind == 't' || kind == 'f'), likely)
	}
	return when(kind == '0' || kind == 't' || kind == 'f' || kind == '"' && !typed, likely)
}

// valuesAre reports whether v is an object whose values all are of the given kinds (jsontext.Kind).
func valuesAre(value *tree.Value, kinds string) bool {
	return value.Kind == '{' && !slices.ContainsFunc(value.Members, func(m tree.Member) bool { return strings.IndexByte(kinds, byte(m.Kind)) < 0 })
}

// describesParameter reports whether an object has a type or a description, like a parameter in a map.
func describesParameter(v *tree.Value) bool {
	return v.Get("type").Kind == '"' || v.Get("description").Kind == '"'
}

func mapSchema(parameters *tree.Value, optional protocol.Raw) (*tree.Value, error) {
	var free []string
	if optional != nil && optional.Kind() != 'n' {
		var err error
		if free, err = rawjson.Strings(optional); err != nil {
			return nil, fmt.Errorf("optional must be a list of parameter names: %w", err)
		}
	}
	var properties []tree.Member
	var required []string
	for _, m := range parameters.Members {
		if m.Kind == 'n' {
			continue // null counts as absent
		}
		if len(properties) == MaxParameters {
			return nil, errTooManyParameters
		}
		parameter, err := parameterSchema(m.Value)
		if err != nil {
			if formOf(m) != no {
				return nil, fmt.Errorf("the parameters are a map of names, and %q is a keyword of JSON Schema; write the parameters under properties", m.Name)
			}
			return nil, fmt.Errorf("parameter %q: %w", m.Name, err)
		}
		properties = append(properties, tree.Member{Name: m.Name, Value: parameter})
		if !slices.Contains(free, m.Name) {
			required = append(required, m.Name)
		}
	}
	whole := tree.Object(tree.Member{Name: "type", Value: tree.String("object")}, tree.Member{Name: "properties", Value: tree.Object(properties...)})
	if len(required) > 0 {
		whole = whole.With("required", tree.Strings(required))
	}
	return whole, nil
}

// parameterSchema returns the schema of a parameter in a map. A string is the name of its type.
func parameterSchema(spec *tree.Value) (*tree.Value, error) {
	if name, ok := spec.Text(); ok {
		return tree.Object(typeOf(name)...), nil
	}
	if spec.Kind != '{' {
		return nil, fmt.Errorf("it must be an object with description and type, not %s", spec.KindName())
	}
	absent := func(m tree.Member) bool { return m.Kind == 'n' && m.Name != "const" && m.Name != "default" }
	spec = tree.Object(slices.DeleteFunc(slices.Clone(spec.Members), absent)...)
	if !spec.Has("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "properties", "items") {
		spec = spec.With("type", tree.String("string"))
	}
	if spec.Get("required").Kind != '[' {
		spec = spec.Without("required") // a flag of the map's author; the optional list decides
	}
	if spec.Get("description").Kind != '"' {
		spec = spec.Without("description")
	}
	return translated(spec), nil
}

// translated returns a schema with all type names translated, at every depth. Other values keep their bytes.
func translated(whole *tree.Value) *tree.Value {
	inner := func(_ string, v *tree.Value) *tree.Value { return translated(v) }
	switch whole.Kind {
	case '[':
		return whole.Map(inner)
	case 'n':
		return tree.True // as if it were absent
	case '{':
	default:
		return whole // true and false are schemas too
	}
	out := make([]tree.Member, 0, len(whole.Members))
	for _, m := range whole.Members {
		name, isName := m.Text()
		switch is := schema.KindOf(m.Name); {
		case m.Kind == 'n' && m.Name != "const" && m.Name != "default": // counts as absent
			continue
		case m.Name == "type" && isName:
			// A list's own items, given beside the type, win over the items of list[T].
			if items := whole.Get("items").Kind; items != 0 && items != 'n' {
				name, _, _ = strings.Cut(name, "[")
			}
			out = append(out, typeOf(name)...)
			continue
		case m.Name == "type" && m.Kind == '[':
			if m.Value = typesOf(m.Value); m.Value == nil {
				continue
			}
		case is == schema.Schemas:
			m.Value = translated(m.Value)
		case is == schema.SchemasByName && m.Kind == '{':
			m.Value = m.Map(inner)
		}
		out = append(out, m)
	}
	return tree.Object(out...)
}

// typeOf returns the members of a schema for the name of a type: type, and for list[T] items. It is empty for an
// unknown name, which means any JSON value.
func typeOf(name string) []tree.Member {
	if len(name) > maxTypeName {
		return nil
	}
	base, inner, parts := strings.Cut(strings.ToLower(strings.TrimSpace(name)), "[")
	inner, closed := strings.CutSuffix(inner, "]")
	typ, known := typeNames[base]
	if !known || parts && !closed {
		return nil
	}
	out := []tree.Member{{Name: "type", Value: tree.String(typ)}}
	if parts && typ == "array" {
		out = append(out, tree.Member{Name: "items", Value: tree.Object(typeOf(inner)...)})
	}
	return out
}

// typesOf translates a list of names of types. It is nil with an unknown name, which means any JSON value. Other lists
// are returned as they are.
func typesOf(list *tree.Value) *tree.Value {
	var types []string
	for e := range list.Elements() {
		name, isName := e.Text()
		if !isName {
			return list
		}
		of := typeOf(name)
		if of == nil {
			return nil
		}
		if typ, _ := of[0].Text(); !slices.Contains(types, typ) {
			types = append(types, typ)
		}
	}
	return tree.Strings(types)
}

var errTooManyParameters = fmt.Errorf("it has more than %d parameters", MaxParameters)

func properties(whole *tree.Value) ([]Property, error) {
	var required []string
	if names := whole.Get("required"); names.Kind != 0 {
		var err error
		if required, err = names.Strings(); err != nil {
			return nil, fmt.Errorf("parameters.required must be a list of names: %w", err)
		}
	}
	var out []Property
	for _, m := range whole.Get("properties").Members {
		if m.Name == "" || strings.ContainsAny(m.Name, "<>\r\n") {
			return nil, fmt.Errorf("the parameter name %q is empty or has a line break, < or >", m.Name)
		}
		if len(out) == MaxParameters {
			return nil, errTooManyParameters
		}
		out = append(out, Property{Name: m.Name, Schema: m.Raw(), Required: slices.Contains(required, m.Name)})
	}
	if whole.Get("additionalProperties").Kind != 'f' {
		for _, name := range required {
			if !slices.ContainsFunc(out, func(p Property) bool { return p.Name == name }) {
				out = append(out, Property{Name: name, Schema: protocol.Raw("{}"), Required: true})
			}
		}
	}
	return out, nil
}
