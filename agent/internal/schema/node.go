package schema

import (
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/agent/internal/tree"
	"agentd/protocol"
)

// node is one schema of a document, read from its keywords.
type node struct {
	id          int
	origin      *tree.Value // the schema before translation; nil outside the document
	check       *jsonschema.Schema
	constraints int // number of constraining keywords

	always int8 // 1 for true, -1 for false

	types  typeSet        // allTypes without the keyword type
	values []protocol.Raw // of enum or const, nil without them

	prefix          []*node
	items, contains *node

	declares    bool // the schema has properties or patternProperties
	properties  []namedSchema
	patterns    []namedSchema
	additional  *node
	names       *node
	unevaluated bool // unevaluatedProperties is false
	evaluates   bool // undeclared members may count as evaluated

	all     []*node         // schemas that a value must match, too
	choices [][]alternative // a value must match one alternative of each list
}

// namedSchema is a schema with its property name or pattern.
type namedSchema struct {
	name string
	node *node
}

// alternative is one way to satisfy a schema.
type alternative struct {
	types               typeSet
	nodes               []*node
	required, forbidden []string // names of members that must be present or absent
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

// typesByKind has the type of each kind of value, with fractionType for all numbers.
var typesByKind = map[jsontext.Kind]typeSet{
	'n': nullType, 't': booleanType, 'f': booleanType, '0': fractionType, '"': stringType, '[': arrayType, '{': objectType,
}

func unescapeFragment(fragment string) string {
	if pointer, err := url.PathUnescape(fragment); err == nil {
		return pointer
	}
	return fragment
}

// node returns the node of a compiled schema, nil for nil.
func (d *Document) node(s *jsonschema.Schema) *node {
	if n := d.nodes[s]; n != nil || s == nil {
		return n
	}
	n := &node{id: len(d.nodes), check: s, types: allTypes}
	d.nodes[s] = n
	pointer, own := strings.CutPrefix(s.Location, documentURL+"#")
	at, known := d.places[unescapeFragment(pointer)]
	if own && known {
		n.origin = at.origin
	}
	switch {
	case s.Bool != nil:
		n.always = always[*s.Bool].always
	case n.origin != nil:
		d.read(n, at.schema)
	default: // outside the known schemas, or the meta-schema: the check decides
		n.constraints = 1
	}
	return n
}

// list returns the nodes of the schemas that are not nil.
func (d *Document) list(schemas ...*jsonschema.Schema) (list []*node) {
	for _, s := range schemas {
		if s != nil {
			list = append(list, d.node(s))
		}
	}
	return list
}

// byName returns the schemas of a keyword such as properties, in the order of the source.
func (d *Document) byName(source *tree.Value, keyword string, schemas map[string]*jsonschema.Schema) (list []namedSchema) {
	for _, m := range source.Get(keyword).Members {
		list = append(list, namedSchema{m.Name, d.node(schemas[m.Name])})
	}
	return list
}

// read fills a node from a compiled schema, and from its source for the order of members and the spelling of values.
func (d *Document) read(n *node, source *tree.Value) {
	s := n.check
	for _, m := range source.Members {
		switch kind := keywords[m.Name]; {
		case kind == identifier || kind == Unknown || m.Name == "$defs" || m.Name == "definitions":
			continue
		case m.Name == "const":
			n.values = []protocol.Raw{m.Raw()}
		case m.Name == "enum" && n.values == nil:
			n.values = slices.AppendSeq([]protocol.Raw{}, protocol.Elements(m.Raw()))
		}
		n.constraints++
	}
	if s.Types != nil {
		n.types = 0
		for _, name := range s.Types.ToStrings() {
			n.types |= typesByName[name]
		}
	}
	n.prefix, n.items, n.contains = d.list(s.PrefixItems...), d.node(s.Items2020), d.node(s.Contains)
	n.declares = s.Properties != nil || s.PatternProperties != nil
	n.properties = d.byName(source, "properties", s.Properties)
	patterns := map[string]*jsonschema.Schema{}
	for re, sub := range s.PatternProperties {
		patterns[re.String()] = sub
	}
	n.patterns = d.byName(source, "patternProperties", patterns)
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
	n.choices = d.choices(s, source)
}

func (d *Document) choices(s *jsonschema.Schema, source *tree.Value) (choices [][]alternative) {
	if s.AnyOf != nil {
		choices = append(choices, alternativesOf(d.list(s.AnyOf...), false))
	}
	if s.OneOf != nil {
		choices = append(choices, alternativesOf(d.list(s.OneOf...), true))
	}
	if s.Not != nil {
		choices = append(choices, exclude(d.node(s.Not)))
	}
	if s.If != nil {
		alternatives := []alternative{{types: allTypes, nodes: d.list(s.If, s.Then)}}
		if !d.node(s.If).unconstrained() {
			alternatives = append(alternatives, alternative{types: allTypes, nodes: d.list(s.Else)})
		}
		choices = append(choices, alternatives)
	}
	for _, m := range d.byName(source, "dependentRequired", nil) {
		choices = append(choices, dependent(m.name, alternative{required: s.DependentRequired[m.name]}))
	}
	for _, m := range d.byName(source, "dependentSchemas", s.DependentSchemas) {
		choices = append(choices, dependent(m.name, alternative{nodes: []*node{m.node}}))
	}
	return choices
}

// alternativesOf returns the alternatives of anyOf. With alone (oneOf), an alternative excludes a type
// of which another one admits all values. The check refuses other values that match two.
func alternativesOf(nodes []*node, alone bool) (alternatives []alternative) {
	for i, n := range nodes {
		w := alternative{types: allTypes, nodes: []*node{n}}
		for j, other := range nodes {
			if alone && j != i && other.onlyType() {
				w.types &^= other.types
			}
		}
		alternatives = append(alternatives, w)
	}
	return alternatives
}

// exclude returns the alternatives of a not with a type or one required name. The check decides others.
func exclude(not *node) []alternative {
	switch {
	case not.unconstrained():
		return nil
	case not.onlyType():
		return []alternative{{types: allTypes &^ not.types}}
	case not.constraints == 1 && len(not.check.Required) == 1: // required holds for everything but objects
		return []alternative{{types: objectType, forbidden: not.check.Required}}
	}
	return []alternative{{types: allTypes}}
}

// dependent returns two alternatives: without the member name, or with it and with the requirements in with.
func dependent(name string, with alternative) []alternative {
	with.types, with.required = objectType, append(slices.Clip(with.required), name)
	return []alternative{{types: allTypes, forbidden: []string{name}}, with}
}

func (n *node) onlyType() bool { return n.constraints == 1 && n.types != allTypes }

func (n *node) unconstrained() bool { return n.always > 0 || n.always == 0 && n.constraints == 0 }

var always = map[bool]*node{true: {id: -1, always: 1}, false: {id: -2, always: -1}}

// narrow narrows low and high by least and most, where nil means no limit.
func narrow(low, high *int, least, most *int) {
	if least != nil {
		*low = max(*low, *least)
	}
	if most != nil {
		*high = smallerMax(*high, *most)
	}
}

// smallerMax returns the smaller of two maxima; -1 is unbounded.
func smallerMax(a, b int) int {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}
