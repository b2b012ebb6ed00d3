// Package schema reads JSON Schemas, checks values against them, and compiles them to grammars.
//
// A schema of any draft is rewritten as one of draft 2020-12. A library compiles that, resolves references,
// and checks values. The grammar is compiled from the same tree, so that it reads each keyword as the check.
//
// The grammar admits the values that the check accepts, in a canonical form:
//   - the white space is that of the grammar ([gbnf.Spacing]);
//   - the members of an object are in the order of their declaration, then undeclared ones;
//   - an object that declares members and does not mention others offers only these, and so
//     does a list that declares its first elements ([Options.Open] offers the others too);
//   - numbers within bounds have no exponent, others one of up to two digits; a number has up
//     to maxDigits digits on each side of the point, or as many as its bounds need;
//   - constants are spelled as in the schema, other strings with the fewest escapes where a
//     rule depends on their characters.
//
// A keyword that a grammar can't express widens it, and the check decides. docs/agent.md lists these keywords.
//
// # Keywords
//
// The table keywords (dialect.go) lists all keywords; read (node.go) reads them. Then:
//
//	id, $id, $schema, $recursiveRef, nullable, format     translator.keyword    dialect.go
//	dependencies, additionalItems, a list of items        translator.applicator dialect.go
//	$ref, $dynamicRef, allOf                              conjoin               compose.go
//	anyOf, oneOf                                          alternativesOf        node.go
//	not                                                   exclude               node.go
//	if, then, else                                        choices               node.go
//	dependentRequired, dependentSchemas                   dependent             node.go
//	enum, const                                           constants             compose.go
//	type                                                  addBranch             build.go
//	minimum, maximum, exclusive..., multipleOf            numbersOf             number.go
//	minLength, maxLength, pattern, format                 textsOf               build.go
//	items, prefixItems, minItems, maxItems, contains      arraysOf              build.go
//	properties, required, minProperties, maxProperties    objectsOf             objects.go
//	additionalProperties, patternProperties               undeclaredOf          objects.go
//	propertyNames                                         namesLimit            objects.go
//	unevaluatedProperties                                 sealed                objects.go
//	uniqueItems, minContains, maxContains,
//	unevaluatedItems                                      only the check
//
// The writer writes the rules: rule (write.go), array and object (compose.go), digits of numbers
// (number.go), members between tags (tagged.go).
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"agentd/agent/internal/tree"
)

// Document is a schema with its check and its grammar. It is immutable, and safe for concurrent use.
type Document struct {
	Root   string      // the document's name in errors; may be set before the first use
	source *tree.Value // of draft 2020-12, until the document is compiled
	count  int         // of schemas in the source
	refers bool        // the source has references

	once    sync.Once
	err     error
	checker // set by Usable
	root    *node
	places  map[string]place // of schemas by JSON pointer into the source, as long as that
	nodes   map[*jsonschema.Schema]*node
	dynamic map[string]int // counts the dynamic anchors of each name

	membersOnce sync.Once
	members     map[string]Member
}

// documentURL is the document's name in the library, which fetches nothing.
const documentURL = "schema:///parameters"

// place is a schema before and after its translation to draft 2020-12.
type place struct{ origin, schema *tree.Value }

// New makes the document of a schema without duplicate names. The error names a number whose exponent is too large.
func New(source *tree.Value) (*Document, error) {
	d := &Document{Root: "parameters", places: map[string]place{}, nodes: map[*jsonschema.Schema]*node{}, dynamic: map[string]int{}}
	d.source = d.translate(source)
	return d, checkNumbers(d.source)
}

// Usable compiles the document. The error says why it is not a usable schema.
func (d *Document) Usable() error {
	d.once.Do(func() {
		c := jsonschema.NewCompiler()
		c.UseLoader(refuseLoader{})
		c.AssertFormat()
		c.UseRegexpEngine(compilePattern)
		source, err := jsonschema.UnmarshalJSON(bytes.NewReader(d.source.Raw()))
		if err == nil {
			err = c.AddResource(documentURL, source)
		}
		if err == nil {
			d.schema, err = c.Compile(documentURL)
		}
		if err != nil {
			d.err = d.plainError(err)
			return
		}
		if !d.refers {
			d.steps = d.count
		}
		d.root = d.node(d.schema)
		d.source, d.places = nil, nil // the nodes have what is still needed
	})
	return d.err
}

var printer = message.NewPrinter(language.English)

func innermost(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	return e
}

// Reason returns the first reason of an error of Validate, with its location. what names the checked value.
func Reason(err error, what string) error {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err
	}
	invalid = innermost(invalid)
	where := ""
	if len(invalid.InstanceLocation) > 0 {
		where = what + " " + strings.Join(invalid.InstanceLocation, ".") + ": "
	}
	if missing, ok := invalid.ErrorKind.(*kind.Required); ok && where == "" {
		return fmt.Errorf("required %ss are missing: %s", what, strings.Join(missing.Missing, ", "))
	}
	return errors.New(where + strings.Join(strings.Fields(invalid.ErrorKind.LocalizedString(printer)), " "))
}

// refuseLoader keeps schemas from reading files and addresses through $ref.
type refuseLoader struct{}

func (refuseLoader) Load(string) (any, error) { return nil, errors.New("not followed") }

// plainError rewrites the library's error in the words of this package.
func (d *Document) plainError(err error) error {
	var load *jsonschema.LoadURLError
	var pointer *jsonschema.JSONPointerNotFoundError
	var anchor *jsonschema.AnchorNotFoundError
	var broken *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	switch {
	case errors.As(err, &broken) && errors.As(broken.Err, &invalid):
		invalid = innermost(invalid)
		where := strings.Join(append([]string{d.Root}, invalid.InstanceLocation...), ".")
		if f, ok := invalid.ErrorKind.(*kind.Format); ok && f.Want == "regex" {
			return fmt.Errorf("%s %q: %w", where, f.Got, f.Err)
		}
		return fmt.Errorf("%s: %s", where, invalid.ErrorKind.LocalizedString(printer))
	case errors.As(err, &load):
		return fmt.Errorf("the $ref %q leads to another document, and those are not followed; write the schema itself there", load.URL)
	case errors.As(err, &pointer):
		return fmt.Errorf("the $ref %q leads to nothing within the %s; write the schema itself there", strings.TrimPrefix(pointer.URL, documentURL), d.Root)
	case errors.As(err, &anchor):
		return fmt.Errorf("the $ref %q leads to nothing within the %s: there is no such anchor", strings.TrimPrefix(anchor.Reference, documentURL), d.Root)
	}
	return errors.New(strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), documentURL, d.Root)), " "))
}

// Target returns the schema to which the $ref of a schema leads, both before translation. It is nil without a $ref.
func (d *Document) Target(of *tree.Value) (*tree.Value, error) {
	if err := d.Usable(); err != nil {
		return nil, err
	}
	for s, n := range d.nodes {
		if n.origin == of && s.Ref != nil {
			return d.nodes[s.Ref].origin, nil
		}
	}
	return nil, nil
}
