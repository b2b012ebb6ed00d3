package schema

import (
	"math/big"
	"net/url"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/protocol"
)

// node is one schema of a document: what its keywords say of a value.
type node struct {
	id    int
	check *jsonschema.Schema
	words int // keywords that say something

	always int8 // 1 for true, -1 for false

	types      typeSet // allTypes where there is no type
	values     []protocol.Raw
	enumerated bool

	low, high *bound
	multiple  *big.Rat

	minLength, maxLength int // -1 for no maximum
	pattern, format      string

	prefix             []*node
	items              *node
	minItems, maxItems int
	contains           *node
	minContains        int

	declares             bool // properties or patternProperties stand here
	properties           []member
	patterns             []member
	additional           *node
	names                *node
	required             []string
	minMember, maxMember int
	dependents           []dependent
	unevaluated          bool // no other members than those that some part declares
	evaluates            bool // declares all members that no part does, in a way

	refs, allOf, anyOf, oneOf []*node
	not, when, then, other    *node
}

// member is a schema by name or pattern.
type member struct {
	name string
	node *node
}

// dependent applies to objects that have a member of some name.
type dependent struct {
	name     string
	required []string
	schema   *node
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

// escapeToken is a name as a part of a JSON pointer.
func escapeToken(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
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
	if s == nil {
		return nil
	}
	if n := d.nodes[s]; n != nil {
		return n
	}
	n := &node{id: len(d.nodes), check: s, types: allTypes, maxLength: -1, maxItems: -1, maxMember: -1}
	d.nodes[s] = n
	pointer, own := pointerOf(s)
	switch {
	case s.Bool != nil:
		n.always = -1
		if *s.Bool {
			n.always = 1
		}
	case own:
		raw, known := d.raws[pointer]
		if !known {
			n.words = 1 // no place for schemas: left to the check
			break
		}
		d.read(n, raw)
	default: // the schema of schemas, which the check knows
		n.words = 1
	}
	return n
}

func (d *Document) list(schemas []*jsonschema.Schema) (list []*node) {
	for _, s := range schemas {
		list = append(list, d.node(s))
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
		case kind == identifier || kind == unknown || name == "$defs" || name == "definitions":
			continue
		case name == "const":
			n.values, n.enumerated = []protocol.Raw{value}, true
		case name == "enum" && n.values == nil:
			for e := range protocol.Elements(value) {
				n.values = append(n.values, e)
			}
			n.enumerated = true
		}
		n.words++
	}
	if s.Types != nil {
		n.types = 0
		for _, name := range s.Types.ToStrings() {
			n.types |= typesByName[name]
		}
	}
	n.low = stricter(boundOf(s.Minimum, false), boundOf(s.ExclusiveMinimum, true), 1)
	n.high = stricter(boundOf(s.Maximum, false), boundOf(s.ExclusiveMaximum, true), -1)
	n.multiple = s.MultipleOf
	n.minLength, n.maxLength = count(s.MinLength, 0), count(s.MaxLength, -1)
	if s.Pattern != nil {
		n.pattern = s.Pattern.String()
	}
	if s.Format != nil {
		n.format = s.Format.Name
	}
	n.prefix, n.items = d.list(s.PrefixItems), d.node(s.Items2020)
	n.minItems, n.maxItems = count(s.MinItems, 0), count(s.MaxItems, -1)
	n.contains, n.minContains = d.node(s.Contains), count(s.MinContains, 1)

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
	n.names, n.required = d.node(s.PropertyNames), s.Required
	n.minMember, n.maxMember = count(s.MinProperties, 0), count(s.MaxProperties, -1)
	for _, m := range d.byName(raw, "dependentRequired", nil) {
		n.dependents = append(n.dependents, dependent{name: m.name, required: s.DependentRequired[m.name]})
	}
	for _, m := range d.byName(raw, "dependentSchemas", s.DependentSchemas) {
		n.dependents = append(n.dependents, dependent{name: m.name, schema: m.node})
	}
	if u := s.UnevaluatedProperties; u != nil {
		n.unevaluated = u.Bool != nil && !*u.Bool
		n.evaluates = !n.unevaluated
	}
	if s.Ref != nil {
		n.refs = append(n.refs, d.node(s.Ref))
	}
	switch r := s.DynamicRef; {
	case r == nil:
	case d.dynamic[r.Anchor] > 1: // any of these anchors may be meant: the check decides
		n.evaluates = true
	default:
		n.refs = append(n.refs, d.node(r.Ref))
	}
	n.allOf, n.anyOf, n.oneOf = d.list(s.AllOf), d.list(s.AnyOf), d.list(s.OneOf)
	n.not, n.when, n.then, n.other = d.node(s.Not), d.node(s.If), d.node(s.Then), d.node(s.Else)
}

// always are the schemas true and false.
var always = map[bool]*node{true: {id: -1, always: 1}, false: {id: -2, always: -1}}

func boundOf(at *big.Rat, open bool) *bound {
	if at == nil {
		return nil
	}
	return &bound{at, open}
}

func count(n *int, absent int) int {
	if n == nil {
		return absent
	}
	return *n
}
