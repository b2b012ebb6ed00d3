package tools

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/rawjson"
	"agentd/agent/internal/schema"
	"agentd/protocol"
)

// flatten writes out the $ref and the allOf at the top of a tool's parameters, which
// libraries make of types. The robot becomes a property beside the tool's, and the
// model is shown all in one place. The check of calls and the grammar keep the schema.
func flatten(whole protocol.Raw, document *schema.Document) (protocol.Raw, error) {
	if !hasAny(whole, "$ref", "allOf", "anyOf", "oneOf", "const", "enum") {
		return whole, nil
	}
	f := flattener{
		root: whole, document: document, followed: map[string]bool{"": true}, noted: map[string]bool{},
		declared: map[string]protocol.Raw{}, demanded: map[string]bool{},
	}
	if err := f.add(whole, "parameters", ""); err != nil {
		return nil, err
	}
	for _, a := range f.choices {
		if err := f.refines(a); err != nil {
			return nil, err
		}
	}
	if !hasAny(whole, "$ref", "allOf") {
		return whole, nil
	}
	if strings.Contains(string(whole), `"#/allOf/`) {
		return nil, errors.New("a $ref leads into parameters.allOf, which is written out; put what it leads to under $defs")
	}
	others, err := f.settleOthers()
	if err != nil {
		return nil, err
	}
	return f.result(others), nil
}

// flattener collects the parts of a schema, all of which hold.
type flattener struct {
	root     protocol.Raw
	document *schema.Document
	parts    int
	bytes    int // of what parts demand besides
	choices  []choice
	followed map[string]bool // references, each once: the same part again adds nothing

	names    []string // of the properties, in order
	declared map[string]protocol.Raw
	required []string
	demanded map[string]bool
	others   []othersRule
	noted    map[string]bool
	notes    protocol.Raw   // annotations that the root lacks, as members
	rest     []protocol.Raw // what parts demand besides
}

type choice struct {
	where        string
	alternatives protocol.Raw
}

// othersRule is an additionalProperties. It looks only at the properties beside it.
type othersRule struct {
	where  string
	beside map[string]bool
	value  protocol.Raw
}

// annotations demand nothing of a value.
var annotations = []string{"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema"}

// add collects the part that stands at where, pointer as a JSON pointer, the root first. What
// of the root is not merged stays in its place.
func (f *flattener) add(part protocol.Raw, where, pointer string) error {
	if f.parts++; f.parts > maxParts {
		return fmt.Errorf("parameters are put together of more than %d parts by $ref and allOf", maxParts)
	}
	if part.Kind() != '{' {
		if part.Kind() != 't' {
			f.rest = append(f.rest, part) // false, or for the check to refuse
		}
		return nil
	}
	isRoot := f.parts == 1
	own := map[string]bool{}
	var ref, all protocol.Raw
	left := protocol.Raw("{")
	for keyword, value := range protocol.Members(part) {
		var err error
		switch keyword {
		case "$ref":
			ref = value
		case "allOf":
			all = value
		case "type":
			err = objectType(value, where)
		case "properties":
			var again []byte
			if again, err = f.declare(value, own, where); len(again) > len("{}") {
				left = rawjson.AddMember(left, keyword, again)
			}
		case "required":
			err = f.demand(value, where)
		case "additionalProperties":
			f.others = append(f.others, othersRule{where + "." + keyword, own, value})
		case "$defs", "definitions", "$id", "$anchor": // references begin at the root
		case "const", "enum":
			err = fmt.Errorf("%s.%s fixes the arguments as a whole, and a call has the robot among them; give each parameter its own", where, keyword)
		case "anyOf", "oneOf":
			f.choices = append(f.choices, choice{where + "." + keyword, value})
			left = rawjson.AddMember(left, keyword, value)
		default:
			switch {
			case !slices.Contains(annotations, keyword):
				left = rawjson.AddMember(left, keyword, value)
			case !f.noted[keyword]:
				f.noted[keyword] = true
				if !isRoot {
					f.notes = rawjson.AddMember(f.notes, keyword, value)
				}
			}
		}
		if err != nil {
			return err
		}
	}
	if len(left) > 1 && !isRoot {
		f.rest = append(f.rest, append(left, '}'))
	}
	// What is referred to in several ways is written out each time.
	if f.bytes += len(left); f.bytes+len(f.notes) > MaxToolBytes {
		return fmt.Errorf("parameters are more than %d bytes once their $ref and allOf are written out", MaxToolBytes)
	}
	return f.follow(ref, all, where, pointer)
}

func (f *flattener) follow(ref, all protocol.Raw, where, pointer string) error {
	if ref != nil {
		target, err := f.document.Target(pointer)
		if err != nil {
			return fmt.Errorf("its parameters are not a usable JSON Schema: %w", err)
		}
		if part, ok := schema.ValueAt(f.root, target); ok && !f.followed[target] {
			f.followed[target] = true
			if err := f.add(part, where+".$ref", target); err != nil {
				return err
			}
		}
	}
	if all != nil && all.Kind() != '[' {
		return fmt.Errorf("%s.allOf must be a list of schemas, not %s", where, rawjson.KindName(all))
	}
	i := 0
	for part := range protocol.Elements(all) {
		if err := f.add(part, fmt.Sprintf("%s.allOf[%d]", where, i), fmt.Sprintf("%s/allOf/%d", pointer, i)); err != nil {
			return err
		}
		i++
	}
	return nil
}

// declare adds properties and returns those that differ from what is there, for the check.
func (f *flattener) declare(properties protocol.Raw, own map[string]bool, where string) (again []byte, err error) {
	if properties.Kind() != '{' {
		return nil, fmt.Errorf("%s.properties must be an object, not %s", where, rawjson.KindName(properties))
	}
	again = protocol.Raw("{")
	for name, value := range protocol.Members(properties) {
		own[name] = true
		switch have, ok := f.declared[name]; {
		case !ok:
			f.names = append(f.names, name)
			f.declared[name] = value
		case string(have) != string(value):
			again = rawjson.AddMember(again, name, value)
		}
	}
	return append(again, '}'), nil
}

func (f *flattener) demand(value protocol.Raw, where string) error {
	names, err := rawjson.Strings(value)
	if err != nil {
		return fmt.Errorf("%s.required must be a list of names: %w", where, err)
	}
	for _, name := range names {
		if !f.demanded[name] {
			f.demanded[name] = true
			f.required = append(f.required, name)
		}
	}
	return nil
}

// settleOthers finds the additionalProperties of all properties together, nil for none.
func (f *flattener) settleOthers() (settled protocol.Raw, err error) {
	for _, rule := range f.others {
		if string(rule.value) == "true" || string(rule.value) == "{}" {
			if settled == nil {
				settled = rule.value
			}
			continue
		}
		for _, name := range f.names {
			if !rule.beside[name] {
				return nil, fmt.Errorf("%s says what else there may be, and the parameter %q stands in another part; write all parameters under one properties", rule.where, name)
			}
		}
		settled = rule.value // of several, each is checked
	}
	return settled, nil
}

func (f *flattener) result(others protocol.Raw) protocol.Raw {
	properties := protocol.Raw("{")
	for _, name := range f.names {
		properties = rawjson.AddMember(properties, name, f.declared[name])
	}
	out := protocol.SetMember(f.root, "properties", append(properties, '}'))
	if len(f.required) > 0 {
		out = protocol.SetMember(out, "required", rawjson.AppendStrings(nil, f.required))
	}
	if others != nil {
		out = protocol.SetMember(out, "additionalProperties", others)
	}
	if len(f.notes) > 0 {
		out = append(append(append(out[:len(out)-1:len(out)-1], ','), f.notes...), '}')
	}
	out = protocol.DeleteMember(protocol.DeleteMember(out, "$ref"), "allOf")
	if len(f.rest) > 0 {
		out = protocol.AppendMember(out, "allOf", protocol.AppendElements(nil, f.rest...))
	}
	if bare := protocol.DeleteMember(protocol.DeleteMember(out, "$defs"), "definitions"); !strings.Contains(string(bare), `"$ref"`) {
		return bare // nothing leads to them any more
	}
	return out
}

// objectType refuses types that arguments can't have. A name that is not a type says nothing.
func objectType(value protocol.Raw, where string) error {
	name, isName := protocol.Text(value)
	name, _, _ = strings.Cut(name, "[") // list[T] is a list
	_, known := typeNames[strings.ToLower(name)]
	if !namesObject(value) && (known || !isName) {
		return fmt.Errorf("%s.type must be object, not %s: a call's arguments are one", where, value)
	}
	return nil
}

// namesObject reports whether a type, or one of a list, is an object's.
func namesObject(value protocol.Raw) bool {
	if value.Kind() == '[' {
		return slices.ContainsFunc(slices.Collect(protocol.Elements(value)), namesObject)
	}
	name, _ := protocol.Text(value)
	return typeNames[strings.ToLower(name)] == "object"
}

// refines refuses alternatives with parameters of their own. The check applies the others.
func (f *flattener) refines(c choice) error {
	for alternative := range protocol.Elements(c.alternatives) {
		for keyword, value := range protocol.Members(alternative) {
			switch {
			case keyword == "required", keyword == "not", slices.Contains(annotations, keyword), keyword == "type" && namesObject(value):
			case keyword == "properties" && f.knows(value):
			default:
				return fmt.Errorf("%s has alternatives with %s; they may only say which parameters are required and more of those that are declared: declare all parameters under properties, or make each alternative a tool", c.where, keyword)
			}
		}
	}
	return nil
}

func (f *flattener) knows(properties protocol.Raw) bool {
	for name := range protocol.Members(properties) {
		if _, ok := f.declared[name]; !ok {
			return false
		}
	}
	return properties.Kind() == '{'
}

// ForGrammar is a tool's Schema without combinations beside its properties,
// which many servers take for the whole schema. The check of calls applies them.
func ForGrammar(schema protocol.Raw) protocol.Raw {
	if typ, _ := protocol.Get(schema, "type"); typ.Kind() == '[' {
		schema = protocol.SetMember(schema, "type", []byte(`"object"`))
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		schema = protocol.DeleteMember(schema, keyword)
	}
	return schema
}
