package schema

import (
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/protocol"
)

// node is one schema of a document: what its keywords say of a value.
type node struct {
	id    int
	check *jsonschema.Schema
	words int // keywords that say something

	always int8 // 1 for true, -1 for false

	types  typeSet        // allTypes where there is no type
	values []protocol.Raw // of enum or const, nil without them

	prefix          []*node
	items, contains *node

	declares    bool // properties or patternProperties stand here
	properties  []member
	patterns    []member
	additional  *node
	names       *node
	unevaluated bool // no other members than those that some part declares
	evaluates   bool // declares all members that no part does, in a way

	all     []*node // schemas that hold, too
	choices [][]way // of each list, one holds
}

// member is a schema by name or pattern.
type member struct {
	name string
	node *node
}

// way is one of several ways to satisfy a schema.
type way struct {
	types       typeSet
	nodes       []*node
	must, never []string // names of members
}

// typeSet is a set of types. Numbers are of two kinds: integers and all others.
type typeSet uint8

const (
	nullType typeSet = 1 << iota
	booleanType
	integerType
	fractionType
	stringType
	arrayType
	objectType

	numberTypes = integerType | fractionType
	allTypes    = 1<<7 - 1
)

var typesByName = map[string]typeSet{
	"null": nullType, "boolean": booleanType, "integer": integerType, "number": numberTypes,
	"string": stringType, "array": arrayType, "object": objectType,
}

// typesByKind are the types of values that are no integers.
var typesByKind = map[jsontext.Kind]typeSet{
	'n': nullType, 't': booleanType, 'f': booleanType, '0': fractionType, '"': stringType, '[': arrayType, '{': objectType,
}

// unescapeFragment is a JSON pointer that stood in an address.
func unescapeFragment(fragment string) string {
	if pointer, err := url.PathUnescape(fragment); err == nil {
		return pointer
	}
	return fragment
}

// pointerOf is where a compiled schema stands, if that is in the document.
func pointerOf(s *jsonschema.Schema) (pointer string, own bool) {
	pointer, own = strings.CutPrefix(s.Location, documentURL+"#")
	return unescapeFragment(pointer), own
}

// node is that of a compiled schema, nil for nil.
func (d *Document) node(s *jsonschema.Schema) *node {
	if n := d.nodes[s]; n != nil || s == nil {
		return n
	}
	n := &node{id: len(d.nodes), check: s, types: allTypes}
	d.nodes[s] = n
	pointer, own := pointerOf(s)
	raw, known := d.raws[pointer]
	switch {
	case s.Bool != nil:
		n.always = always[*s.Bool].always
	case own && known:
		d.read(n, raw)
	default: // no place for schemas, or the schema of schemas: left to the check
		n.words = 1
	}
	return n
}

// list leaves out what is nil.
func (d *Document) list(schemas ...*jsonschema.Schema) (list []*node) {
	for _, s := range schemas {
		if s != nil {
			list = append(list, d.node(s))
		}
	}
	return list
}

// byName is the schemas of a keyword in the order of the source.
func (d *Document) byName(raw protocol.Raw, keyword string, schemas map[string]*jsonschema.Schema) (list []member) {
	value, _ := protocol.Get(raw, keyword)
	for name := range protocol.Members(value) {
		list = append(list, member{name, d.node(schemas[name])})
	}
	return list
}

// read takes over what a compiled schema says; raw is its text, which has the order of members
// and the spelling of constants.
func (d *Document) read(n *node, raw protocol.Raw) {
	s := n.check
	for name, value := range protocol.Members(raw) {
		switch kind := keywords[name]; {
		case kind == identifier || kind == Unknown || name == "$defs" || name == "definitions":
			continue
		case name == "const":
			n.values = []protocol.Raw{value}
		case name == "enum" && n.values == nil:
			n.values = slices.AppendSeq([]protocol.Raw{}, protocol.Elements(value))
		}
		n.words++
	}
	if s.Types != nil {
		n.types = 0
		for _, name := range s.Types.ToStrings() {
			n.types |= typesByName[name]
		}
	}
	n.prefix, n.items, n.contains = d.list(s.PrefixItems...), d.node(s.Items2020), d.node(s.Contains)
	n.declares = s.Properties != nil || s.PatternProperties != nil
	n.properties = d.byName(raw, "properties", s.Properties)
	patterns := map[string]*jsonschema.Schema{}
	for re, sub := range s.PatternProperties {
		patterns[re.String()] = sub
	}
	n.patterns = d.byName(raw, "patternProperties", patterns)
	switch a := s.AdditionalProperties.(type) {
	case bool:
		n.additional = always[a]
	case *jsonschema.Schema:
		n.additional = d.node(a)
	}
	n.names = d.node(s.PropertyNames)
	if u := s.UnevaluatedProperties; u != nil {
		n.unevaluated = u.Bool != nil && !*u.Bool
		n.evaluates = !n.unevaluated
	}
	n.all = d.list(append([]*jsonschema.Schema{s.Ref}, s.AllOf...)...)
	switch r := s.DynamicRef; {
	case r == nil:
	case d.dynamic[r.Anchor] > 1: // any of these anchors may be meant: the check decides
		n.evaluates = true
	default:
		n.all = append(n.all, d.node(r.Ref))
	}
	n.choices = d.choices(s, raw)
}

// choices are the keywords of which one alternative or another holds.
func (d *Document) choices(s *jsonschema.Schema, raw protocol.Raw) (choices [][]way) {
	if s.AnyOf != nil {
		choices = append(choices, alternatives(d.list(s.AnyOf...), false))
	}
	if s.OneOf != nil {
		choices = append(choices, alternatives(d.list(s.OneOf...), true))
	}
	if s.Not != nil {
		choices = append(choices, excluded(d.node(s.Not)))
	}
	if s.If != nil {
		ways := []way{{types: allTypes, nodes: d.list(s.If, s.Then)}}
		if !d.node(s.If).free() {
			ways = append(ways, way{types: allTypes, nodes: d.list(s.Else)})
		}
		choices = append(choices, ways)
	}
	for _, m := range d.byName(raw, "dependentRequired", nil) {
		choices = append(choices, dependent(m.name, way{must: s.DependentRequired[m.name]}))
	}
	for _, m := range d.byName(raw, "dependentSchemas", s.DependentSchemas) {
		choices = append(choices, dependent(m.name, way{nodes: []*node{m.node}}))
	}
	return choices
}

// alternatives are those of anyOf. With alone (oneOf), an alternative has no values of a type
// that another one admits as a whole. The check finds other values that match two.
func alternatives(nodes []*node, alone bool) (ways []way) {
	for i, n := range nodes {
		w := way{types: allTypes, nodes: []*node{n}}
		for j, other := range nodes {
			if alone && j != i && other.onlyType() {
				w.types &^= other.types
			}
		}
		ways = append(ways, w)
	}
	return ways
}

// excluded takes out what the schema of a not says in a simple way; the rest is checked.
func excluded(not *node) []way {
	switch {
	case not.free():
		return nil
	case not.onlyType():
		return []way{{types: allTypes &^ not.types}}
	case not.words == 1 && len(not.check.Required) == 1: // required holds of all that is no object
		return []way{{types: objectType, never: not.check.Required}}
	}
	return []way{{types: allTypes}}
}

// dependent is without a member, or with it and what depends on it.
func dependent(name string, with way) []way {
	with.types, with.must = objectType, append(slices.Clip(with.must), name)
	return []way{{types: allTypes, never: []string{name}}, with}
}

// onlyType reports whether a schema is a type and nothing else.
func (n *node) onlyType() bool { return n.words == 1 && n.types != allTypes }

// free reports whether a node says nothing at all of a value.
func (n *node) free() bool { return n.always > 0 || n.always == 0 && n.words == 0 }

// always are the schemas true and false.
var always = map[bool]*node{true: {id: -1, always: 1}, false: {id: -2, always: -1}}

// within narrows limits of a count by those of a schema.
func within(low, high *int, least, most *int) {
	if least != nil {
		*low = max(*low, *least)
	}
	if most != nil {
		*high = lower(*high, *most)
	}
}

// lower is the smaller of two maxima, -1 being none.
func lower(a, b int) int {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}
