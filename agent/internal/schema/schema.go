// Package schema reads JSON Schemas, checks values against them, and compiles them to
// grammars.
//
// One document serves both sides. Whatever dialect a schema is written in is read into one
// tree, with its references resolved. From the tree come the schema of draft 2020-12 that
// the check uses (a library's) and the rules that say what a model may write. So both have
// the same idea of what a keyword means.
//
// The rules admit the values that the check accepts, in a canonical form:
//   - the white space is that of the grammar ([gbnf.Spacing]);
//   - the members of an object stand in the order of their declaration, first those that
//     are required in any case, then the others, then undeclared ones;
//   - where an object declares members and says nothing of others, or a list declares its
//     first elements and says nothing of more, only the declared ones are offered
//     ([Options.Open] offers the others too);
//   - numbers within bounds have no exponent, others one of up to two digits; a number has up
//     to maxDigits digits on each side of the point beyond those of its bounds;
//   - constants are spelled as in the schema, other strings with the fewest escapes where a
//     rule looks at their characters.
//
// What a grammar can't express is widened: the rules then admit more, and the check decides.
// docs/agent.md lists these keywords.
package schema

import (
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/protocol"
)

// Document is a schema that was read. It never changes and may be used by any number of
// goroutines.
type Document struct {
	root  *node
	nodes int

	source    protocol.Raw
	draft     int
	resources map[string]*resource // by the path of their root
	byURL     map[string]*resource
	anchors   map[string]string // of URL and name to a path
	dynamic   map[string]int    // how many dynamic anchors have a name

	paths   map[string]*node // by their path in the source
	pending []*node          // that references lead to and that were not read yet

	membersOnce sync.Once
	members     map[string]Member

	mu       sync.Mutex // guards the library's compiler
	compiler *jsonschema.Compiler
	compiled error
	once     sync.Once
	check    *jsonschema.Schema
}

// resource is a schema with an address of its own, or the whole document.
type resource struct {
	url   *url.URL
	path  string
	draft int
}

// node is one schema of a document: its keywords, as far as they say what a value may be.
type node struct {
	id    int
	path  string // in the source, a JSON pointer
	out   string // in what the check is made of
	raw   protocol.Raw
	owner *resource
	read  bool

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
	bare               bool // contains has no bounds of its own

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

	exported any
}

// member is a schema by name or pattern.
type member struct {
	name string
	node *node
}

// dependent is what must hold where a member is there.
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

// Parse reads a schema, valid JSON without duplicate names.
func Parse(source protocol.Raw) (*Document, error) {
	d := &Document{source: source, paths: map[string]*node{}, resources: map[string]*resource{}, byURL: map[string]*resource{}}
	d.draft = draftOf(source, 2020)
	d.addResource(&url.URL{Scheme: "schema", Path: "/parameters"}, "", d.draft)
	if hasIdentifiers(source) {
		d.anchors, d.dynamic = map[string]string{}, map[string]int{}
		d.identify(source, "", d.resources[""])
	}
	p := parser{Document: d}
	d.root = p.at("", source)
	if err := p.read(d.root, ""); err != nil {
		return nil, err
	}
	defs := map[string]any{}
	for i := 0; i < len(d.pending); i++ {
		n := d.pending[i]
		if n.read {
			continue
		}
		name := fmt.Sprintf("r%d", n.id)
		if err := p.read(n, "/$defs/"+name); err != nil {
			return nil, err
		}
		defs[name] = n.exported
	}
	for _, link := range p.links {
		link.from["$ref"] = "#" + fragment(link.to.out)
	}
	if out, ok := d.root.exported.(map[string]any); ok && len(defs) > 0 {
		out["$defs"] = defs
	}
	return d, nil
}

// fragment is a JSON pointer as it stands behind the # of a reference.
func fragment(pointer string) string { return (&url.URL{Fragment: pointer}).EscapedFragment() }

// escapeToken is a name as a part of a JSON pointer.
func escapeToken(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// unescapeToken undoes escapeToken.
func unescapeToken(token string) string {
	if !strings.Contains(token, "~") {
		return token
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
}

// Where is the place of a node for messages, parameters being the name of the whole.
func (n *node) where() string { return "parameters" + strings.ReplaceAll(n.path, "/", ".") }
