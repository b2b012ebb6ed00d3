package schema

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentd/agent/internal/rawjson"
	"agentd/protocol"
)

// Keyword is a kind of keyword.
type Keyword int

// Kinds of keywords.
const (
	unknown       Keyword = iota
	plain                 // says something of a value, and holds no schema
	identifier            // says nothing of a value
	old                   // of another draft, rewritten
	Schemas               // a schema, or a list of schemas
	SchemasByName         // an object of schemas
)

var keywords = map[string]Keyword{
	"type": plain, "enum": plain, "const": plain, "multipleOf": plain, "minimum": plain, "maximum": plain, "exclusiveMinimum": plain, "exclusiveMaximum": plain,
	"minLength": plain, "maxLength": plain, "pattern": plain, "format": plain, "minItems": plain, "maxItems": plain, "uniqueItems": plain,
	"minContains": plain, "maxContains": plain, "minProperties": plain, "maxProperties": plain, "required": plain, "dependentRequired": plain,
	"$ref": plain, "$dynamicRef": plain,
	"$id": identifier, "$anchor": identifier, "$dynamicAnchor": identifier, "$defs": SchemasByName, "definitions": SchemasByName,
	"id": old, "$schema": old, "$recursiveRef": old, "nullable": old,
	"items": Schemas, "prefixItems": Schemas, "additionalItems": Schemas, "unevaluatedItems": Schemas, "contains": Schemas,
	"additionalProperties": Schemas, "unevaluatedProperties": Schemas, "propertyNames": Schemas, "anyOf": Schemas, "oneOf": Schemas,
	"allOf": Schemas, "not": Schemas, "if": Schemas, "then": Schemas, "else": Schemas,
	"properties": SchemasByName, "patternProperties": SchemasByName, "dependentSchemas": SchemasByName, "dependencies": SchemasByName,
}

// KindOf returns the kind of a keyword.
func KindOf(keyword string) Keyword { return keywords[keyword] }

// since2019 are keywords that mean nothing in draft-07 and before.
var since2019 = []string{"prefixItems", "dependentRequired", "dependentSchemas", "minContains", "maxContains",
	"unevaluatedProperties", "unevaluatedItems", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef"}

// draftOf is the draft that a schema names, or the one of what it is in.
func draftOf(schema protocol.Raw, outer int) int {
	name := textOf(schema, "$schema")
	if name == "" {
		return outer
	}
	for mark, draft := range map[string]int{"draft-03": 4, "draft-04": 4, "draft-06": 6, "draft-07": 7} {
		if strings.Contains(name, mark) {
			return draft
		}
	}
	return 2020
}

// textOf is a member that is a string, or "".
func textOf(obj protocol.Raw, name string) string {
	v, _ := protocol.Get(obj, name)
	s, _ := protocol.Text(v)
	return s
}

// translator rewrites a schema of any draft as one of draft 2020-12.
type translator struct {
	*Document
	out     []byte
	spans   map[string][2]int // of schemas in out, by their JSON pointer there
	targets []string          // pointers that references name
}

var localRef = regexp.MustCompile(`"#(/(?:[^"\\]|\\.)*)"`)

// translate is a schema as one of draft 2020-12; null counts as absent. Keywords that say
// nothing of a value are left out, unless a reference may lead into them.
func (d *Document) translate(source protocol.Raw) protocol.Raw {
	t := translator{Document: d, spans: map[string][2]int{}}
	for _, m := range localRef.FindAllSubmatch(source, -1) {
		t.targets = append(t.targets, unescapeFragment(string(m[1])))
	}
	t.schema(source, "", 2020)
	for path, span := range t.spans {
		d.raws[path] = protocol.Raw(t.out[span[0]:span[1]])
	}
	return t.out
}

func (t *translator) write(text string) { t.out = append(t.out, text...) }

// name begins a member of an object whose first byte is at start.
func (t *translator) name(start int, name string) {
	if len(t.out) > start+1 {
		t.write(",")
	}
	t.out = append(rawjson.AppendString(t.out, name), ':')
}

// value writes the value of an unknown keyword. References may lead to schemas within it.
func (t *translator) value(v protocol.Raw, path string, draft int) {
	switch {
	case !slices.ContainsFunc(t.targets, func(target string) bool { return strings.HasPrefix(target, path) }):
		t.out = append(t.out, v...)
	case slices.Contains(t.targets, path):
		t.schema(v, path, draft)
	default:
		t.each(v, path, func(inner protocol.Raw, path string) { t.value(inner, path, draft) })
	}
}

// each writes an object or a list whose values f writes. Other values are copied.
func (t *translator) each(v protocol.Raw, path string, f func(inner protocol.Raw, path string)) {
	start := len(t.out)
	switch v.Kind() {
	case '{':
		t.write("{")
		for name, inner := range protocol.Members(v) {
			t.name(start, name)
			f(inner, path+"/"+escapeToken(name))
		}
		t.write("}")
	case '[':
		t.write("[")
		i := 0
		for inner := range protocol.Elements(v) {
			if i > 0 {
				t.write(",")
			}
			f(inner, path+"/"+strconv.Itoa(i))
			i++
		}
		t.write("]")
	default:
		t.out = append(t.out, v...)
	}
}

// schema writes a schema.
func (t *translator) schema(v protocol.Raw, path string, draft int) {
	start := len(t.out)
	switch v.Kind() {
	case 'n':
		t.write("true")
		return
	case '{':
	default:
		t.out = append(t.out, v...)
		return
	}
	draft = draftOf(v, draft)
	_, refers := protocol.Get(v, "$ref")
	t.write("{")
	for name, value := range protocol.Members(v) {
		kind := keywords[name]
		switch {
		case value.Kind() == 'n' && name != "const":
		case draft <= 7 && (slices.Contains(since2019, name) || refers && name != "$ref" && name != "definitions" && name != "$defs"):
		case kind == Schemas || kind == SchemasByName:
			t.applicator(start, v, name, value, path, draft)
		case kind != unknown:
			if as, value := t.keyword(v, name, value, draft); as != "" {
				t.name(start, as)
				t.out = append(t.out, value...)
			}
		case value.Kind() == '{' || value.Kind() == '[':
			if at := path + "/" + escapeToken(name); slices.ContainsFunc(t.targets, func(target string) bool { return strings.HasPrefix(target, at) }) {
				t.name(start, name)
				t.value(value, at, draft)
			}
		}
	}
	t.write("}")
	t.spans[path] = [2]int{start, len(t.out)}
}

// applicator writes a keyword that holds schemas.
func (t *translator) applicator(start int, whole protocol.Raw, name string, value protocol.Raw, path string, draft int) {
	inner := func(v protocol.Raw, path string) { t.schema(v, path, draft) }
	put := func(name string, value protocol.Raw) {
		t.name(start, name)
		at := path + "/" + name
		if keywords[name] == Schemas && value.Kind() != '[' {
			inner(value, at)
		} else {
			t.each(value, at, inner)
		}
	}
	switch {
	case name == "additionalItems":
		if items, _ := protocol.Get(whole, "items"); items.Kind() == '[' {
			put("items", value)
		}
	case (name == "items" || name == "prefixItems") && value.Kind() == '[':
		// The list of the drafts before 2020 counts whatever the schema says of its draft.
		if string(value) != "[]" {
			put("prefixItems", value)
		}
	case name == "dependencies" && value.Kind() == '{':
		parts := map[bool]protocol.Raw{true: protocol.Raw("{}"), false: protocol.Raw("{}")}
		for member, v := range protocol.Members(value) {
			parts[v.Kind() == '['] = protocol.AppendMember(parts[v.Kind() == '['], member, v)
		}
		put("dependentSchemas", parts[false])
		t.name(start, "dependentRequired")
		t.out = append(t.out, parts[true]...)
	default:
		put(name, value)
	}
}

var listItem = regexp.MustCompile(`/items/([0-9]+)`)

// keyword translates a keyword that holds no schemas; as is its name in draft 2020-12, or "" if
// it is dropped.
func (t *translator) keyword(whole protocol.Raw, name string, value protocol.Raw, draft int) (as string, _ protocol.Raw) {
	text, isText := protocol.Text(value)
	switch name {
	case "$schema", "nullable":
		return "", nil
	case "id", "$id":
		switch {
		case (name == "id") != (draft == 4) || !isText:
			return "", nil
		case draft <= 7 && strings.HasPrefix(text, "#"):
			return "$anchor", protocol.String(text[1:])
		}
		return "$id", value
	case "$recursiveRef":
		return "$ref", value
	case "$ref":
		if isText && strings.Contains(text, "/items/") {
			value = protocol.String(listItem.ReplaceAllString(text, "/prefixItems/$1"))
		}
	case "$dynamicAnchor":
		t.dynamic[text]++
	case "type":
		types, err := rawjson.Strings(value)
		if isText {
			types, err = []string{text}, nil
		}
		if nullable, _ := protocol.Get(whole, "nullable"); err == nil && string(nullable) == "true" && !slices.Contains(types, "null") {
			value = rawjson.AppendStrings(nil, append(types, "null")) // OpenAPI's way
		}
	case "format":
		// As the drafts have it, a format is a remark. It counts where the type says that the
		// value is a string.
		typ, _ := protocol.Get(whole, "type")
		if formats[text] == "" || !strings.Contains(string(typ), `"string"`) {
			return "", nil
		}
	case "minimum", "maximum":
		if open, _ := protocol.Get(whole, "exclusiveM"+name[1:]); string(open) == "true" { // draft-04's way
			return "exclusiveM" + name[1:], value
		}
	case "exclusiveMinimum", "exclusiveMaximum":
		if value.Kind() == 't' || value.Kind() == 'f' {
			return "", nil
		}
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		// A count beyond all lengths bounds nothing, as a maximum, and is as good as the largest
		// one, as a minimum.
		if x, err := parseNumber(value); err == nil && x != nil && x.IsInt() && x.Sign() >= 0 {
			if x.Num().IsInt64() && x.Num().Int64() < math.MaxInt32 {
				return name, protocol.Raw(x.Num().String())
			}
			if strings.HasPrefix(name, "max") {
				return "", nil
			}
			return name, protocol.Raw(strconv.Itoa(math.MaxInt32))
		}
	}
	return name, value
}

// ValueAt is the value at a JSON pointer.
func ValueAt(v protocol.Raw, pointer string) (protocol.Raw, bool) {
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		if v.Kind() == '[' {
			i, err := strconv.Atoi(token)
			list := slices.Collect(protocol.Elements(v))
			if err != nil || i < 0 || i >= len(list) {
				return nil, false
			}
			v = list[i]
			continue
		}
		member, ok := protocol.Get(v, strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~"))
		if !ok {
			return nil, false
		}
		v = member
	}
	return v, true
}
