package format

import (
	"slices"

	"agentd/agent/internal/rawjson"
	"agentd/agent/tools"
	"agentd/protocol"
)

// appendTypeScript appends a function as the TypeScript type that gpt-oss was
// trained to read, line breaks included.
func appendTypeScript(dst []byte, t *tools.Tool) []byte {
	dst = append(append(append(dst, "// "...), t.Description...), "\ntype "...)
	dst = append(append(dst, t.Name...), " = "...)
	properties, _ := protocol.Get(t.Prompted, "properties")
	if len(properties) <= len("{}") {
		return append(dst, "() => any;\n\n"...)
	}
	required := requiredNames(t.Prompted)
	dst = append(dst, "(_: {\n"...)
	for parameter, spec := range protocol.Members(properties) {
		if text := text(spec, "description"); text != "" {
			dst = append(append(append(dst, "// "...), text...), '\n')
		}
		dst = append(dst, parameter...)
		if !slices.Contains(required, parameter) {
			dst = append(dst, '?')
		}
		dst = append(dst, ": "...)
		dst = appendTSType(dst, spec)
		if value, ok := protocol.Get(spec, "default"); ok {
			_, enum := protocol.Get(spec, "enum")
			_, oneOf := protocol.Get(spec, "oneOf")
			switch {
			case enum:
				dst = appendUnquoted(append(dst, ", // default: "...), value)
			case oneOf:
				dst = appendUnquoted(append(dst, "// default: "...), value)
			default:
				dst = rawjson.AppendSpaced(append(dst, ", // default: "...), value)
			}
		}
		dst = append(dst, ",\n"...)
	}
	return append(dst, "}) => any;\n\n"...)
}

// appendTSType appends the type of a value.
func appendTSType(dst []byte, spec protocol.Raw) []byte {
	typ, _ := protocol.Get(spec, "type")
	oneOf, _ := protocol.Get(spec, "oneOf")
	name, _ := protocol.Text(typ)
	switch {
	case name == "array":
		return appendNullable(appendTSArray(dst, spec), spec)
	case typ.Kind() == '[' && len(typ) > len("[]"):
		first := true
		for e := range protocol.Elements(typ) {
			if !first {
				dst = append(dst, " | "...)
			}
			first = false
			dst = appendUnquoted(dst, e)
		}
		return dst
	case oneOf.Kind() == '[' && len(oneOf) > len("[]"):
		return appendTSUnion(dst, oneOf)
	case name == "string":
		enum, _ := protocol.Get(spec, "enum")
		if enum.Kind() != '[' || len(enum) <= len("[]") {
			return appendNullable(append(dst, "string"...), spec)
		}
		separator := `"`
		for e := range protocol.Elements(enum) {
			dst = appendUnquoted(append(dst, separator...), e)
			separator = `" | "`
		}
		return append(dst, '"')
	case name == "number" || name == "integer":
		return append(dst, "number"...)
	case name == "boolean":
		return append(dst, "boolean"...)
	case name == "object":
		return appendTSObject(dst, spec)
	}
	return append(dst, "any"...)
}

func appendTSArray(dst []byte, spec protocol.Raw) []byte {
	items, _ := protocol.Get(spec, "items")
	if len(items) <= len("{}") {
		return append(dst, "any[]"...)
	}
	// The template falls back to any where a type gets long.
	const longest = 50
	inner := appendTSType(nil, items)
	if string(inner) == "object | object" || len([]rune(string(inner))) > longest && !plainItems(items) {
		return append(dst, "any[]"...)
	}
	if plainItems(items) { // an enum or null of plain items is not shown
		inner = []byte(text(items, "type"))
		if string(inner) == "integer" {
			inner = []byte("number")
		}
	}
	return append(append(dst, inner...), "[]"...)
}

func plainItems(items protocol.Raw) bool {
	return slices.Contains([]string{"string", "number", "integer", "boolean"}, text(items, "type"))
}

func appendTSUnion(dst []byte, variants protocol.Raw) []byte {
	list := slices.Collect(protocol.Elements(variants))
	if len(list) > 1 && slices.ContainsFunc(list, func(v protocol.Raw) bool { return text(v, "type") == "object" }) {
		return append(dst, "any"...)
	}
	for i, variant := range list {
		dst = appendTSType(dst, variant)
		if description := text(variant, "description"); description != "" {
			dst = append(append(dst, "// "...), description...)
		}
		if value, ok := protocol.Get(variant, "default"); ok {
			dst = append(dst, "                    // default: "...)
			dst = append(rawjson.AppendSpaced(dst, value), '\n')
		}
		if i < len(list)-1 {
			dst = append(dst, " | \n"...)
		}
	}
	return dst
}

func appendTSObject(dst []byte, spec protocol.Raw) []byte {
	properties, _ := protocol.Get(spec, "properties")
	if len(properties) <= len("{}") {
		return append(dst, "object"...)
	}
	required := requiredNames(spec)
	dst = append(dst, "{\n"...)
	first := true
	for name, property := range protocol.Members(properties) {
		if !first {
			dst = append(dst, ", "...)
		}
		first = false
		dst = append(dst, name...)
		if !slices.Contains(required, name) {
			dst = append(dst, '?')
		}
		dst = append(dst, ": \n                "...)
		dst = appendTSType(dst, property)
	}
	return append(dst, '}')
}

func appendNullable(dst []byte, spec protocol.Raw) []byte {
	if v, _ := protocol.Get(spec, "nullable"); string(v) == "true" {
		return append(dst, " | null"...)
	}
	return dst
}

func requiredNames(schema protocol.Raw) []string {
	raw, _ := protocol.Get(schema, "required")
	names, _ := rawjson.Strings(raw)
	return names
}

// text is a member that is a string, or "".
func text(obj protocol.Raw, name string) string {
	v, _ := protocol.Get(obj, name)
	s, _ := protocol.Text(v)
	return s
}
