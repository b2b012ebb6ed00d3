package tools

import (
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/rawjson"
	"agentd/agent/internal/schema"
	"agentd/protocol"
)

// typeNames maps the type names clients use, in lower case, to JSON Schema's.
var typeNames = map[string]string{
	"string": "string", "str": "string",
	"integer": "integer", "int": "integer", "long": "integer", "short": "integer", "byte": "integer",
	"number": "number", "float": "number", "double": "number",
	"boolean": "boolean", "bool": "boolean",
	"array": "array", "list": "array", "tuple": "array", "arraylist": "array",
	"object": "object", "dict": "object", "hashmap": "object", "map": "object",
	"null": "null", // of JSON Schemas
}

// objectSchema is the JSON Schema of a tool's arguments. parameters is one, or a map
// of name to {description, type}, of which the names in optional may be left out.
func objectSchema(parameters, optional protocol.Raw) (protocol.Raw, error) {
	if parameters == nil || parameters.Kind() == 'n' {
		return protocol.Raw(`{"type":"object","properties":{}}`), nil
	}
	if parameters.Kind() != '{' {
		return nil, fmt.Errorf("parameters must be an object, not %s", rawjson.KindName(parameters))
	}
	if n := subschemas(parameters); n > MaxSubschemas {
		return nil, fmt.Errorf("its parameters hold %d schemas, but at most %d are possible", n, MaxSubschemas)
	}
	if isSchema(parameters) {
		if typ, ok := protocol.Get(parameters, "type"); ok && typ.Kind() != 'n' {
			if err := objectType(typ, "parameters"); err != nil {
				return nil, err
			}
		}
		whole := translated(parameters)
		if _, ok := protocol.Get(whole, "type"); !ok {
			whole = protocol.SetMember(whole, "type", []byte(`"object"`))
		}
		if props, ok := protocol.Get(whole, "properties"); !ok {
			whole = protocol.SetMember(whole, "properties", []byte(`{}`))
		} else if props.Kind() != '{' {
			return nil, fmt.Errorf("parameters.properties must be an object, not %s", rawjson.KindName(props))
		}
		return whole, nil
	}
	return mapSchema(parameters, optional)
}

// subschemas counts objects and booleans in a valid JSON value, which may be schemas.
func subschemas(v protocol.Raw) int {
	n := 0
	for c := range unquoted(v) {
		if c == '{' || c == 't' || c == 'f' { // true, false: no other word has these letters
			n++
		}
	}
	return n
}

// isSchema distinguishes a JSON Schema from a map of parameters by keywords whose values have their
// form. Parameters may have names of keywords, so these only count if all members are keywords.
func isSchema(parameters protocol.Raw) bool {
	keywords, others := 0, 0
	for name, value := range protocol.Members(parameters) {
		switch form := formOf(name, value); {
		case name == "type" && namesObject(value), form == surely:
			return true
		case form == likely:
			keywords++
		case form == no && isParameter(name, value):
			others++
		case schema.KindOf(name) == schema.Unknown && !slices.Contains(annotations, name) && (value.Kind() == '{' || value.Kind() == '"'):
			others++
		}
	}
	return keywords > 0 && others == 0
}

// isParameter reports whether a member named like a keyword has the form of a parameter only.
func isParameter(name string, value protocol.Raw) bool {
	text, _ := protocol.Text(value)
	_, typed := typeNames[strings.ToLower(text)]
	return typed || schema.KindOf(name) != schema.Schemas && value.Kind() == '{' && describesParameter(value)
}

// form says whether a member is a keyword in its form.
type form int

const (
	no     form = iota
	likely      // so may be a member of a map, or what stands beside a map by mistake
	surely
)

func formOf(name string, value protocol.Raw) form {
	kind := value.Kind()
	text, _ := protocol.Text(value)
	_, typed := typeNames[strings.ToLower(text)] // a parameter's type
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
	case (name == "dependentRequired" || name == "dependencies") && !hasAny(value, "enum") && valuesAre(value, "["):
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

// valuesAre reports whether an object's values all are of some kinds.
func valuesAre(value protocol.Raw, kinds string) bool {
	for _, v := range protocol.Members(value) {
		if strings.IndexByte(kinds, byte(v.Kind())) < 0 {
			return false
		}
	}
	return value.Kind() == '{'
}

// describesParameter reports whether an object has the type or description of a map's parameter.
func describesParameter(v protocol.Raw) bool {
	for _, name := range []string{"type", "description"} {
		if member, _ := protocol.Get(v, name); member.Kind() == '"' {
			return true
		}
	}
	return false
}

func mapSchema(parameters, optional protocol.Raw) (protocol.Raw, error) {
	var free []string
	if optional != nil && optional.Kind() != 'n' {
		var err error
		if free, err = rawjson.Strings(optional); err != nil {
			return nil, fmt.Errorf("optional must be a list of parameter names: %w", err)
		}
	}
	properties := protocol.Raw("{")
	var required []string
	count := 0
	for name, value := range protocol.Members(parameters) {
		if value.Kind() == 'n' {
			continue // null counts as absent
		}
		if count++; count > MaxParameters {
			return nil, tooManyParameters()
		}
		parameter, err := parameterSchema(value)
		if err != nil {
			if formOf(name, value) != no {
				return nil, fmt.Errorf("the parameters are a map of names, and %q is a keyword of JSON Schema; write the parameters under properties", name)
			}
			return nil, fmt.Errorf("parameter %q: %w", name, err)
		}
		properties = rawjson.AddMember(properties, name, parameter)
		if !slices.Contains(free, name) {
			required = append(required, name)
		}
	}
	whole := protocol.AppendMember(protocol.Raw(`{"type":"object"}`), "properties", append(properties, '}'))
	if len(required) > 0 {
		whole = protocol.AppendMember(whole, "required", rawjson.AppendStrings(nil, required))
	}
	return whole, nil
}

// parameterSchema is the schema of a map's parameter, with its type translated. A string is a type.
func parameterSchema(spec protocol.Raw) (protocol.Raw, error) {
	switch spec.Kind() {
	case '"':
		name, err := rawjson.String(spec)
		return append(addType(protocol.Raw("{"), name), '}'), err
	case '{':
	default:
		return nil, fmt.Errorf("it must be an object with description and type, not %s", rawjson.KindName(spec))
	}

	_, typed := protocol.Get(spec, "type")
	if !typed && !hasAny(spec, "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "properties", "items") {
		spec = protocol.SetMember(spec, "type", []byte(`"string"`))
	}
	if required, ok := protocol.Get(spec, "required"); ok && required.Kind() != '[' {
		spec = protocol.DeleteMember(spec, "required") // a flag of the map's author; the optional list decides
	}
	if description, ok := protocol.Get(spec, "description"); ok && description.Kind() != '"' {
		spec = protocol.DeleteMember(spec, "description")
	}
	return translated(spec), nil
}

// translated is schemas with the type names translated at every depth. Other values keep their bytes.
func translated(whole protocol.Raw) protocol.Raw {
	inner := func(_ string, v protocol.Raw) protocol.Raw { return translated(v) }
	switch whole.Kind() {
	case '[':
		return rawjson.Each(whole, inner)
	case 'n':
		return protocol.Raw("true") // as if it were absent
	case '{':
	default:
		return whole // true and false are schemas too
	}
	out := protocol.Raw("{")
	for keyword, value := range protocol.Members(whole) {
		name, isName := protocol.Text(value)
		switch is := schema.KindOf(keyword); {
		case value.Kind() == 'n' && keyword != "const" && keyword != "default": // counts as absent
		case keyword == "type" && isName:
			// A list's own items, given beside the type, win over the items of list[T].
			if hasAny(whole, "items") {
				name, _, _ = strings.Cut(name, "[")
			}
			out = addType(out, name)
		case keyword == "type" && value.Kind() == '[':
			out = rawjson.AddMember(out, keyword, typesOf(value))
		case is == schema.Schemas:
			out = rawjson.AddMember(out, keyword, translated(value))
		case is == schema.SchemasByName && value.Kind() == '{':
			out = rawjson.AddMember(out, keyword, rawjson.Each(value, inner))
		default:
			out = rawjson.AddMember(out, keyword, value)
		}
	}
	return append(out, '}')
}

// addType adds a type by its name, and the items of list[T], to an object. Other names mean any JSON value.
func addType(open protocol.Raw, name string) protocol.Raw {
	if len(name) > maxTypeName {
		return open
	}
	base, inner, parts := strings.Cut(strings.ToLower(strings.TrimSpace(name)), "[")
	inner, closed := strings.CutSuffix(inner, "]")
	typ, known := typeNames[base]
	if !known || parts && !closed {
		return open
	}
	open = rawjson.AddMember(open, "type", protocol.String(typ))
	if parts && typ == "array" {
		open = rawjson.AddMember(open, "items", append(addType(protocol.Raw("{"), inner), '}'))
	}
	return open
}

// typesOf translates a list of types. A list of anything else stays as it is.
func typesOf(list protocol.Raw) protocol.Raw {
	var types []string
	for e := range protocol.Elements(list) {
		name, _ := protocol.Text(e)
		name, _, _ = strings.Cut(name, "[")
		typ, known := typeNames[strings.ToLower(strings.TrimSpace(name))]
		if !known {
			return list
		}
		if !slices.Contains(types, typ) {
			types = append(types, typ)
		}
	}
	return rawjson.AppendStrings(nil, types)
}

func hasAny(obj protocol.Raw, names ...string) bool {
	for name := range protocol.Members(obj) {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

func tooManyParameters() error {
	return fmt.Errorf("it has more than %d parameters", MaxParameters)
}

func properties(whole protocol.Raw) ([]Property, error) {
	props, _ := protocol.Get(whole, "properties")
	var required []string
	if raw, ok := protocol.Get(whole, "required"); ok {
		var err error
		if required, err = rawjson.Strings(raw); err != nil {
			return nil, fmt.Errorf("parameters.required must be a list of names: %w", err)
		}
	}
	var out []Property
	for name, value := range protocol.Members(props) {
		if name == "" || strings.ContainsAny(name, "<>\r\n") {
			return nil, fmt.Errorf("the parameter name %q is empty or has a line break, < or >", name)
		}
		if len(out) == MaxParameters {
			return nil, tooManyParameters()
		}
		out = append(out, Property{Name: name, Schema: value, Required: slices.Contains(required, name)})
	}
	if others, _ := protocol.Get(whole, "additionalProperties"); string(others) != "false" {
		others = protocol.Raw("{}")
		for _, name := range required {
			if !slices.ContainsFunc(out, func(p Property) bool { return p.Name == name }) {
				out = append(out, Property{Name: name, Schema: others, Required: true})
			}
		}
	}
	return out, nil
}
