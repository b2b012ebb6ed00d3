package tools

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/schema"
	"agentd/agent/internal/tree"
	"agentd/protocol"
)

// flatten expands $ref and allOf at the top of a tool's parameters, which libraries generate from types. So all
// properties are in one place, where the robot parameter is added and the model sees them. The check of
// calls and the grammar use the original schema.
func flatten(whole *tree.Value, document *schema.Document) (*tree.Value, error) {
	if !whole.Has("$ref", "allOf", "anyOf", "oneOf", "const", "enum") {
		return whole, nil
	}
	f := flattener{
		root: whole, document: document, followed: map[*tree.Value]bool{whole: true},
		declared: map[string]*tree.Value{}, demanded: map[string]bool{},
	}
	if err := f.add(whole, "parameters"); err != nil {
		return nil, err
	}
	for _, a := range f.choices {
		if err := f.refines(a); err != nil {
			return nil, err
		}
	}
	if !whole.Has("$ref", "allOf") {
		return whole, nil
	}
	if strings.Contains(string(whole.Raw()), `"#/allOf/`) {
		return nil, errors.New("a $ref leads into parameters.allOf, which is written out; put what it leads to under $defs")
	}
	others, err := f.settleOthers()
	if err != nil {
		return nil, err
	}
	return f.result(others), nil
}

// flattener merges the parts of a schema, all of which a value must match.
type flattener struct {
	root     *tree.Value
	document *schema.Document
	parts    int
	bytes    int // of rest and notes
	choices  []choice
	followed map[*tree.Value]bool // targets of references: each is merged once

	names    []string // of the properties, in order
	declared map[string]*tree.Value
	required []string
	demanded map[string]bool
	others   []othersRule
	notes    []tree.Member // annotations that the root lacks
	rest     []*tree.Value // keywords of parts that can't be merged; they stay in an allOf
}

type choice struct {
	where        string
	alternatives *tree.Value
}

// othersRule is an additionalProperties. It applies to names that are not in the properties of the same part.
type othersRule struct {
	where  string
	beside map[string]bool
	value  *tree.Value
}

// annotations are keywords that do not constrain a value.
var annotations = []string{"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema"}

// add merges the part at where; the first part is the root. Keywords of the root that can't be merged stay.
func (f *flattener) add(part *tree.Value, where string) error {
	if f.parts++; f.parts > maxParts {
		return fmt.Errorf("parameters are put together of more than %d parts by $ref and allOf", maxParts)
	}
	if part.Kind != '{' {
		if part.Kind != 't' {
			f.rest = append(f.rest, part) // false, or for the check to refuse
		}
		return nil
	}
	isRoot := f.parts == 1
	own := map[string]bool{}
	left := tree.Object()
	for _, m := range part.Members {
		var err error
		switch m.Name {
		case "$ref", "allOf": // see follow
		case "type":
			err = objectType(m.Value, where)
		case "properties":
			if m.Value, err = f.declare(m.Value, own, where); err == nil && len(m.Members) > 0 {
				left.Members = append(left.Members, m)
			}
		case "required":
			err = f.demand(m.Value, where)
		case "additionalProperties":
			f.others = append(f.others, othersRule{where + "." + m.Name, own, m.Value})
		case "$defs", "definitions", "$id", "$anchor": // references begin at the root
		case "const", "enum":
			err = fmt.Errorf("%s.%s fixes the arguments as a whole, and a call has the robot among them; give each parameter its own", where, m.Name)
		case "anyOf", "oneOf":
			f.choices = append(f.choices, choice{where + "." + m.Name, m.Value})
			left.Members = append(left.Members, m)
		default:
			switch {
			case !slices.Contains(annotations, m.Name):
				left.Members = append(left.Members, m)
			case !f.root.Has(m.Name) && !tree.Object(f.notes...).Has(m.Name):
				f.notes = append(f.notes, m)
				f.bytes += len(m.Raw())
			}
		}
		if err != nil {
			return err
		}
	}
	if len(left.Members) > 0 && !isRoot {
		f.rest = append(f.rest, left)
	}
	// What is referred to in several ways is written out each time.
	if f.bytes += len(left.Raw()); f.bytes > MaxToolBytes {
		return fmt.Errorf("parameters are more than %d bytes once their $ref and allOf are written out", MaxToolBytes)
	}
	return f.follow(part, where)
}

func (f *flattener) follow(part *tree.Value, where string) error {
	if part.Has("$ref") {
		target, err := f.document.Target(part)
		if err != nil {
			return fmt.Errorf("its parameters are not a usable JSON Schema: %w", err)
		}
		if target != nil && !f.followed[target] {
			f.followed[target] = true
			if err := f.add(target, where+".$ref"); err != nil {
				return err
			}
		}
	}
	all := part.Get("allOf")
	if all.Kind != 0 && all.Kind != '[' {
		return fmt.Errorf("%s.allOf must be a list of schemas, not %s", where, all.KindName())
	}
	i := 0
	for inner := range all.Elements() {
		if err := f.add(inner, fmt.Sprintf("%s.allOf[%d]", where, i)); err != nil {
			return err
		}
		i++
	}
	return nil
}

// declare adds properties. It returns those that another part declares differently, which stay for the check.
func (f *flattener) declare(properties *tree.Value, own map[string]bool, where string) (again *tree.Value, err error) {
	if properties.Kind != '{' {
		return nil, fmt.Errorf("%s.properties must be an object, not %s", where, properties.KindName())
	}
	again = tree.Object()
	for _, m := range properties.Members {
		own[m.Name] = true
		switch have, ok := f.declared[m.Name]; {
		case !ok:
			f.names = append(f.names, m.Name)
			f.declared[m.Name] = m.Value
		case string(have.Raw()) != string(m.Raw()):
			again.Members = append(again.Members, m)
		}
	}
	return again, nil
}

func (f *flattener) demand(value *tree.Value, where string) error {
	names, err := value.Strings()
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

// settleOthers returns the additionalProperties for all properties together, nil for none.
func (f *flattener) settleOthers() (settled *tree.Value, err error) {
	for _, rule := range f.others {
		if rule.value.Kind == 't' || rule.value.Kind == '{' && len(rule.value.Members) == 0 {
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

func (f *flattener) result(others *tree.Value) *tree.Value {
	properties := tree.Object()
	for _, name := range f.names {
		properties.Members = append(properties.Members, tree.Member{Name: name, Value: f.declared[name]})
	}
	out := f.root.With("properties", properties)
	if len(f.required) > 0 {
		out = out.With("required", tree.Strings(f.required))
	}
	if others != nil {
		out = out.With("additionalProperties", others)
	}
	for _, m := range f.notes {
		out = out.With(m.Name, m.Value)
	}
	out = out.Without("$ref", "allOf")
	if len(f.rest) > 0 {
		out = out.With("allOf", tree.List(f.rest...))
	}
	if bare := out.Without("$defs", "definitions"); !strings.Contains(string(bare.Raw()), `"$ref"`) {
		return bare // nothing leads to them any more
	}
	return out
}

// objectType refuses types that exclude objects. Unknown names of types are ignored.
func objectType(value *tree.Value, where string) error {
	name, isName := value.Text()
	if !namesObject(value) && (!isName || typeOf(name) != nil) {
		return fmt.Errorf("%s.type must be object, not %s: a call's arguments are one", where, value.Raw())
	}
	return nil
}

// namesObject reports whether a type, or one of a list of types, means object.
func namesObject(value *tree.Value) bool {
	if value.Kind == '[' {
		return slices.ContainsFunc(slices.Collect(value.Elements()), namesObject)
	}
	name, _ := value.Text()
	return typeNames[strings.ToLower(strings.TrimSpace(name))] == "object"
}

// refines refuses alternatives that declare parameters. The check applies other alternatives.
func (f *flattener) refines(c choice) error {
	for alternative := range c.alternatives.Elements() {
		for _, m := range alternative.Members {
			undeclared := func(p tree.Member) bool { return f.declared[p.Name] == nil }
			switch {
			case m.Name == "required", m.Name == "not", slices.Contains(annotations, m.Name), m.Name == "type" && namesObject(m.Value):
			case m.Name == "properties" && m.Kind == '{' && !slices.ContainsFunc(m.Members, undeclared):
			default:
				return fmt.Errorf("%s has alternatives with %s; they may only say which parameters are required and more of those that are declared: declare all parameters under properties, or make each alternative a tool", c.where, m.Name)
			}
		}
	}
	return nil
}

// ForGrammar returns a tool's Schema without anyOf, oneOf and allOf at the top: many servers
// would make a grammar of these alone. The check of calls applies them.
func ForGrammar(schema protocol.Raw) protocol.Raw {
	if typ, _ := protocol.Get(schema, "type"); typ.Kind() == '[' {
		schema = protocol.SetMember(schema, "type", []byte(`"object"`))
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		schema = protocol.DeleteMember(schema, keyword)
	}
	return schema
}
