package schema

import (
	"cmp"
	"errors"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/internal/pattern"
	"agentd/agent/internal/tree"
	"agentd/protocol"
)

// Keyword is a kind of keyword of JSON Schema.
type Keyword int

// Kinds of keywords.
const (
	Unknown       Keyword = iota
	plain                 // constrains a value, and contains no schema
	identifier            // names a schema
	old                   // of an older draft; rewritten
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

// draftOf returns the draft that a schema names (4, 6, 7 or 2020), outer if it names none.
func draftOf(schema *tree.Value, outer int) int {
	name, _ := schema.Get("$schema").Text()
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
	targets []string // JSON pointers in the document's references
}

// translate returns a schema in draft 2020-12, without null keywords and unknown ones that no reference leads into.
func (d *Document) translate(source *tree.Value) *tree.Value {
	t := translator{Document: d}
	for v := range source.All() {
		if text, _ := v.Text(); strings.HasPrefix(text, "#/") {
			t.targets = append(t.targets, unescapeFragment(text[1:]))
		}
	}
	return t.schema(source, "", 2020)
}

func child(path, name string) string { return string(jsontext.Pointer(path).AppendToken(name)) }

// targeted reports whether a reference leads to the value at a path, or into it.
func (t *translator) targeted(path string) bool {
	return slices.ContainsFunc(t.targets, func(target string) bool { return strings.HasPrefix(target, path) })
}

// value translates the schemas within the value of an unknown keyword to which references lead.
func (t *translator) value(v *tree.Value, path string, draft int) *tree.Value {
	switch {
	case !t.targeted(path):
		return v
	case slices.Contains(t.targets, path):
		return t.schema(v, path, draft)
	}
	return v.Map(func(name string, inner *tree.Value) *tree.Value { return t.value(inner, child(path, name), draft) })
}

// schema translates a schema and records it in places.
func (t *translator) schema(v *tree.Value, path string, draft int) *tree.Value {
	t.count++
	out := v
	switch v.Kind {
	case 'n':
		out = tree.True
	case '{':
		out = t.object(v, path, draftOf(v, draft))
	}
	t.places[path] = place{v, out}
	return out
}

func (t *translator) object(v *tree.Value, path string, draft int) *tree.Value {
	refers := v.Has("$ref")
	out := tree.Object()
	put := func(name string, value *tree.Value) {
		out.Members = append(out.Members, tree.Member{Name: name, Value: value})
	}
	for _, m := range v.Members {
		kind := keywords[m.Name]
		switch {
		case m.Kind == 'n' && m.Name != "const":
		case draft <= 7 && (slices.Contains(since2019, m.Name) || refers && m.Name != "$ref" && m.Name != "definitions" && m.Name != "$defs"):
		case kind == Schemas || kind == SchemasByName:
			t.applicator(v, m, path, draft, put)
		case kind != Unknown:
			if as, value := t.keyword(v, m, draft); as != "" {
				put(as, value)
				t.refers = t.refers || as == "$ref" || as == "$dynamicRef"
			}
		case t.targeted(child(path, m.Name)):
			put(m.Name, t.value(m.Value, child(path, m.Name), draft))
		}
	}
	return out
}

// applicator translates a keyword that contains schemas, and calls put with the result.
func (t *translator) applicator(whole *tree.Value, m tree.Member, path string, draft int, put func(string, *tree.Value)) {
	translate := func(name string, value *tree.Value) {
		at := path + "/" + name
		if keywords[name] == Schemas && value.Kind != '[' {
			put(name, t.schema(value, at, draft))
			return
		}
		put(name, value.Map(func(name string, inner *tree.Value) *tree.Value { return t.schema(inner, child(at, name), draft) }))
	}
	switch name := m.Name; {
	case name == "additionalItems":
		if whole.Get("items").Kind == '[' {
			translate("items", m.Value)
		}
	case (name == "items" || name == "prefixItems") && m.Kind == '[':
		// A list is read as in the drafts before 2020, whatever $schema says.
		if string(m.Raw()) != "[]" {
			translate("prefixItems", m.Value)
		}
	case name == "dependencies" && m.Kind == '{':
		schemas, required := tree.Object(), tree.Object()
		for _, on := range m.Members {
			part := schemas
			if on.Kind == '[' {
				part = required
			}
			part.Members = append(part.Members, on)
		}
		translate("dependentSchemas", schemas)
		put("dependentRequired", required)
	default:
		translate(name, m.Value)
	}
}

var listItem = regexp.MustCompile(`/items/([0-9]+)`)

// keyword translates a keyword without schemas. as is its name in draft 2020-12, "" to drop it.
func (t *translator) keyword(whole *tree.Value, m tree.Member, draft int) (as string, _ *tree.Value) {
	name, value := m.Name, m.Value
	text, isText := value.Text()
	switch name {
	case "$schema", "nullable":
		return "", nil
	case "id", "$id":
		switch {
		case (name == "id") != (draft == 4) || !isText:
			return "", nil
		case draft <= 7 && strings.HasPrefix(text, "#"):
			return "$anchor", tree.String(text[1:])
		}
		return "$id", value
	case "$recursiveRef":
		return "$ref", value
	case "$ref":
		if isText && strings.Contains(text, "/items/") {
			value = tree.String(listItem.ReplaceAllString(text, "/prefixItems/$1"))
		}
	case "$dynamicAnchor":
		t.dynamic[text]++
	case "type":
		types, err := value.Strings()
		if isText {
			types, err = []string{text}, nil
		}
		if err == nil && whole.Get("nullable").Kind == 't' && !slices.Contains(types, "null") {
			value = tree.Strings(append(types, "null")) // as OpenAPI says
		}
	case "format", "pattern":
		// By the drafts a format is an annotation. It counts if the type is a string, then also instead of look-around.
		format, _ := whole.Get("format").Text()
		counts := formats[format] != "" && strings.Contains(string(whole.Get("type").Raw()), `"string"`)
		_, err := pattern.Compile(text)
		if name == "format" && !counts || name == "pattern" && counts && errors.Is(err, pattern.ErrLookAround) {
			return "", nil
		}
	case "minimum", "maximum":
		if whole.Get("exclusiveM"+name[1:]).Kind == 't' { // as in draft-04
			return "exclusiveM" + name[1:], value
		}
	case "exclusiveMinimum", "exclusiveMaximum":
		if value.Kind == 't' || value.Kind == 'f' {
			return "", nil
		}
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		// A maximum beyond all lengths is dropped; such a minimum becomes the largest length. Gemini writes strings.
		switch x := integer(protocol.Raw(cmp.Or(text, string(value.Raw())))); {
		case x == nil || x.Sign() < 0:
		case x.Cmp(big.NewInt(math.MaxInt32)) < 0:
			return name, tree.Parse(protocol.Raw(x.String()))
		case strings.HasPrefix(name, "max"):
			return "", nil
		default:
			return name, tree.Parse(protocol.Raw(strconv.Itoa(math.MaxInt32)))
		}
	}
	return name, value
}
