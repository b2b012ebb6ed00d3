package schema

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/agent/internal/pattern"
	"agentd/agent/internal/tree"
	"agentd/protocol"
)

// decode makes values for the library.
func decode(raw protocol.Raw) (any, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = checkNumbers(tree.Parse(raw))
	}
	return doc, err
}

// checkNumbers refuses exponents that the library would expand to many digits.
func checkNumbers(source *tree.Value) error {
	for v := range source.All() {
		if v.Kind == '0' && !expandable(string(v.Raw())) {
			return fmt.Errorf("the number %.40s has an exponent beyond %d", string(v.Raw()), maxExponent)
		}
	}
	return nil
}

// expandable reports whether a number's exponent is at most maxExponent.
func expandable(number string) bool {
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return true
	}
	exponent, err := strconv.Atoi(number[at+1:])
	return err == nil && -maxExponent <= exponent && exponent <= maxExponent
}

func compilePattern(source string) (jsonschema.Regexp, error) { return pattern.Compile(source) }

// integer returns the value of a number without a fraction, such as 2.0; nil for others.
func integer(value protocol.Raw) *big.Int {
	if value.Kind() != '0' || !expandable(string(value)) {
		return nil
	}
	if n, ok := new(big.Rat).SetString(string(value)); ok && n.IsInt() {
		return n.Num()
	}
	return nil
}

// checker checks values by a compiled schema.
type checker struct {
	schema *jsonschema.Schema
	steps  int // estimated steps for each byte of a value; 0: not known
}

// Validate checks a value and returns it decoded. The error is a *jsonschema.ValidationError if the value does not
// match the schema. Any other error means that the check would take more than maxCheckSteps, plus checkStepsPerByte for
// each byte of the value. The document must be usable.
func (c checker) Validate(value protocol.Raw) (doc any, err error) {
	if doc, err = decode(value); err != nil {
		return nil, err
	}
	most := maxCheckSteps + checkStepsPerByte*len(value)
	if c.steps == 0 || c.steps*len(value) > most {
		steps := counter{left: most}
		if steps.visit(doc, c.schema); steps.left < 0 {
			return nil, fmt.Errorf("the schema takes more than %d steps to check these arguments", most)
		}
	}
	return doc, c.schema.Validate(doc)
}

// accepts reports whether a value passes the check of a schema; true also if the check would take too many steps.
func (n *node) accepts(value protocol.Raw) bool {
	if n.always != 0 {
		return n.always > 0
	}
	_, err := checker{schema: n.check}.Validate(value)
	return !errors.As(err, new(*jsonschema.ValidationError))
}

// allAccept reports whether a value passes the check of each schema.
func allAccept(set []*node, value protocol.Raw) bool {
	return !slices.ContainsFunc(set, func(n *node) bool { return !n.accepts(value) })
}

// counter counts the steps of a check. Recursive schemas can double them with every level.
type counter struct{ left int }

// visit counts the schemas that the library would apply to v, or more, until no step is left.
func (c *counter) visit(v any, schemas ...*jsonschema.Schema) {
	for _, s := range schemas {
		if s == nil || c.left < 0 {
			continue
		}
		c.left--
		c.visit(v, s.Ref, s.Not, s.If, s.Then, s.Else)
		c.visit(v, s.AllOf...)
		c.visit(v, s.AnyOf...)
		c.visit(v, s.OneOf...)
		if s.DynamicRef != nil {
			c.visit(v, s.DynamicRef.Ref)
		}
		switch v := v.(type) {
		case map[string]any:
			c.visit(v, slices.Collect(maps.Values(s.DependentSchemas))...)
			others := append(slices.Collect(maps.Values(s.PatternProperties)), s.UnevaluatedProperties)
			if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
				others = append(others, sub)
			}
			for name, value := range v {
				c.visit(name, s.PropertyNames)
				c.visit(value, s.Properties[name])
				c.visit(value, others...)
			}
		case []any:
			for i, value := range v {
				if i < len(s.PrefixItems) {
					c.visit(value, s.PrefixItems[i])
				}
				c.visit(value, s.Contains, s.Items2020, s.UnevaluatedItems)
			}
		}
	}
}

// formats has an expression for each format of JSON Schema. The check decides the rest, such as leap days.
var formats = map[string]string{
	"date":      `^` + date + `$`,
	"time":      `^` + clock + `$`,
	"date-time": `^` + date + `[Tt]` + clock + `$`,
	"duration":  `^P([0-9]+W|` + days + `(T` + hours + `)?|T` + hours + `)$`,
	"uuid":      `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`,
	"ipv4":      `^(` + octet + `\.){3}` + octet + `$`,
	"ipv6":      `^[0-9a-fA-F:]*:[0-9a-fA-F:.]*$`,
	"hostname":  `^` + label + `(\.` + label + `)*\.?$`,
	"email":     "^([A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*|\"[^\"\\\\]*\")@(" + label + `(\.` + label + `)*\.?|\[[0-9a-zA-Z:.]+\])$`,
}

const (
	date  = `[0-9]{4}-(0[1-9]-(0[1-9]|[12][0-9]|3[01])|1[0-2]-(0[1-9]|[12][0-9]|3[01]))`
	clock = `([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`
	days  = `([0-9]+Y([0-9]+M)?([0-9]+D)?|[0-9]+M([0-9]+D)?|[0-9]+D)`
	hours = `([0-9]+H([0-9]+M)?([0-9]+S)?|[0-9]+M([0-9]+S)?|[0-9]+S)`
	octet = `(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
	label = `[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?`
)
