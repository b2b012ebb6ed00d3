package schema

import (
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/internal/rawjson"
	"agentd/protocol"
)

// Keyword is a kind of keyword.
type Keyword int

// Kinds of keywords.
const (
	Unknown       Keyword = iota
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
	v, _ := protocol.Get(schema, "$schema")
	name, _ := protocol.Text(v)
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

// translator rewrites a schema of any draft as one of draft 2020-12.
type translator struct {
	*Document
	targets []string // pointers that references name
}

var localRef = regexp.MustCompile(`"#(/(?:[^"\\]|\\.)*)"`)

// translate is a schema as one of draft 2020-12; null counts as absent. Keywords that say
// nothing of a value are left out, unless a reference may lead into them.
func (d *Document) translate(source protocol.Raw) protocol.Raw {
	t := translator{Document: d}
	for _, m := range localRef.FindAllSubmatch(source, -1) {
		t.targets = append(t.targets, unescapeFragment(string(m[1])))
	}
	return t.schema(source, "", 2020)
}

// child is the JSON pointer to a member of what another one leads to.
func child(path, name string) string { return string(jsontext.Pointer(path).AppendToken(name)) }

// add appends a member to an object that is not closed yet.
func add(open protocol.Raw, name string, value protocol.Raw) protocol.Raw {
	if len(open) > 1 {
		open = append(open, ',')
	}
	return append(append(rawjson.AppendString(open, name), ':'), value...)
}

// targeted reports whether a reference leads to a place or into it.
func (t *translator) targeted(path string) bool {
	return slices.ContainsFunc(t.targets, func(target string) bool { return strings.HasPrefix(target, path) })
}

// value translates the value of an unknown keyword. References may lead to schemas within it.
func (t *translator) value(v protocol.Raw, path string, draft int) protocol.Raw {
	switch {
	case !t.targeted(path):
		return v
	case slices.Contains(t.targets, path):
		return t.schema(v, path, draft)
	}
	return each(v, path, func(inner protocol.Raw, path string) protocol.Raw { return t.value(inner, path, draft) })
}

// each is an object or a list with the values that f makes of its own. Other values stay.
func each(v protocol.Raw, path string, f func(inner protocol.Raw, path string) protocol.Raw) protocol.Raw {
	switch v.Kind() {
	case '{':
		out := protocol.Raw("{")
		for name, inner := range protocol.Members(v) {
			out = add(out, name, f(inner, child(path, name)))
		}
		return append(out, '}')
	case '[':
		var list []protocol.Raw
		for inner := range protocol.Elements(v) {
			list = append(list, f(inner, path+"/"+strconv.Itoa(len(list))))
		}
		return protocol.AppendElements(nil, list...)
	}
	return v
}

// schema translates a schema, and keeps it by its place in the translation.
func (t *translator) schema(v protocol.Raw, path string, draft int) protocol.Raw {
	switch v.Kind() {
	case 'n':
		return protocol.Raw("true")
	case '{':
	default:
		return v
	}
	draft = draftOf(v, draft)
	_, refers := protocol.Get(v, "$ref")
	out := protocol.Raw("{")
	put := func(name string, value protocol.Raw) { out = add(out, name, value) }
	for name, value := range protocol.Members(v) {
		kind := keywords[name]
		switch {
		case value.Kind() == 'n' && name != "const":
		case draft <= 7 && (slices.Contains(since2019, name) || refers && name != "$ref" && name != "definitions" && name != "$defs"):
		case kind == Schemas || kind == SchemasByName:
			t.applicator(v, name, value, path, draft, put)
		case kind != Unknown:
			if as, value := t.keyword(v, name, value, draft); as != "" {
				put(as, value)
			}
		case t.targeted(child(path, name)):
			put(name, t.value(value, child(path, name), draft))
		}
	}
	out = append(out, '}')
	t.raws[path] = out
	return out
}

// applicator translates a keyword that holds schemas. It gives put the name and the value.
func (t *translator) applicator(whole protocol.Raw, name string, value protocol.Raw, path string, draft int, put func(string, protocol.Raw)) {
	inner := func(v protocol.Raw, path string) protocol.Raw { return t.schema(v, path, draft) }
	translate := func(name string, value protocol.Raw) {
		at := path + "/" + name
		if keywords[name] == Schemas && value.Kind() != '[' {
			put(name, inner(value, at))
		} else {
			put(name, each(value, at, inner))
		}
	}
	switch {
	case name == "additionalItems":
		if items, _ := protocol.Get(whole, "items"); items.Kind() == '[' {
			translate("items", value)
		}
	case (name == "items" || name == "prefixItems") && value.Kind() == '[':
		// The list of the drafts before 2020 counts whatever the schema says of its draft.
		if string(value) != "[]" {
			translate("prefixItems", value)
		}
	case name == "dependencies" && value.Kind() == '{':
		parts := map[bool]protocol.Raw{true: protocol.Raw("{}"), false: protocol.Raw("{}")}
		for member, v := range protocol.Members(value) {
			parts[v.Kind() == '['] = protocol.AppendMember(parts[v.Kind() == '['], member, v)
		}
		translate("dependentSchemas", parts[false])
		put("dependentRequired", parts[true])
	default:
		translate(name, value)
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
		switch x := integer(value); {
		case x == nil || x.Sign() < 0:
		case x.Cmp(big.NewInt(math.MaxInt32)) < 0:
			return name, protocol.Raw(x.String())
		case strings.HasPrefix(name, "max"):
			return "", nil
		default:
			return name, protocol.Raw(strconv.Itoa(math.MaxInt32))
		}
	}
	return name, value
}

// ValueAt is the value at a JSON pointer.
func ValueAt(v protocol.Raw, pointer string) (_ protocol.Raw, ok bool) {
	for token := range jsontext.Pointer(pointer).Tokens() {
		if v.Kind() == '[' {
			i, err := strconv.Atoi(token)
			list := slices.Collect(protocol.Elements(v))
			if err != nil || i < 0 || i >= len(list) {
				return nil, false
			}
			v = list[i]
		} else if v, ok = protocol.Get(v, token); !ok {
			return nil, false
		}
	}
	return v, true
}
