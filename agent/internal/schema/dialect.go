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
	plain                 // constrains a value, and holds no schema
	identifier            // names a schema
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

// since2019 are keywords that draft-07 and older ignore.
var since2019 = []string{"prefixItems", "dependentRequired", "dependentSchemas", "minContains", "maxContains",
	"unevaluatedProperties", "unevaluatedItems", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef"}

// draftOf returns the draft that a schema names, else that of its parent.
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

// translate returns a schema in draft 2020-12 without null and unknown keywords, unless references need them.
func (d *Document) translate(source protocol.Raw) protocol.Raw {
	t := translator{Document: d}
	for _, m := range localRef.FindAllSubmatch(source, -1) {
		t.targets = append(t.targets, unescapeFragment(string(m[1])))
	}
	return t.schema(source, "", 2020)
}

func child(path, name string) string { return string(jsontext.Pointer(path).AppendToken(name)) }

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

func each(v protocol.Raw, path string, f func(inner protocol.Raw, path string) protocol.Raw) protocol.Raw {
	return rawjson.Each(v, func(name string, inner protocol.Raw) protocol.Raw { return f(inner, child(path, name)) })
}

// schema translates a schema and records it by its pointer.
func (t *translator) schema(v protocol.Raw, path string, draft int) protocol.Raw {
	t.count++
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
	put := func(name string, value protocol.Raw) { out = rawjson.AddMember(out, name, value) }
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
				t.refers = t.refers || as == "$ref" || as == "$dynamicRef"
			}
		case t.targeted(child(path, name)):
			put(name, t.value(value, child(path, name), draft))
		}
	}
	out = append(out, '}')
	t.raws[path] = out
	return out
}

// applicator translates a keyword that holds schemas, and calls put with the result.
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
		// A list is read as in the drafts before 2020, whatever $schema says.
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

// keyword translates a keyword without schemas. as is its name in draft 2020-12; "" drops it.
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
			value = rawjson.AppendStrings(nil, append(types, "null")) // as OpenAPI says
		}
	case "format":
		// By the drafts a format is an annotation. It counts if the type is a string.
		typ, _ := protocol.Get(whole, "type")
		if formats[text] == "" || !strings.Contains(string(typ), `"string"`) {
			return "", nil
		}
	case "minimum", "maximum":
		if open, _ := protocol.Get(whole, "exclusiveM"+name[1:]); string(open) == "true" { // as in draft-04
			return "exclusiveM" + name[1:], value
		}
	case "exclusiveMinimum", "exclusiveMaximum":
		if value.Kind() == 't' || value.Kind() == 'f' {
			return "", nil
		}
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		// A maximum beyond all lengths is dropped; such a minimum becomes the largest length.
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

// ValueAt returns the value at a JSON pointer.
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
