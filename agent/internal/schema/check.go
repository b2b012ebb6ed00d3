package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/agent/internal/pattern"
	"agentd/protocol"
)

// decode makes the values that the library works on. It refuses numbers whose
// exponents are beyond every float64: the library takes them for fractions of
// that many digits.
func decode(raw protocol.Raw) (any, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return doc, checkNumbers(doc)
}

func checkNumbers(v any) error {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if err := checkNumbers(e); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if err := checkNumbers(e); err != nil {
				return err
			}
		}
	case json.Number:
		at := strings.IndexAny(string(v), "eE")
		if at < 0 {
			return nil
		}
		if exponent, err := strconv.Atoi(string(v[at+1:])); err != nil || exponent < -maxExponent || exponent > maxExponent {
			return fmt.Errorf("the number %.40s has an exponent beyond %d", v, maxExponent)
		}
	}
	return nil
}

// expression is a regular expression of ECMA-262 that says the same to the check and to the
// grammar.
type expression struct {
	*regexp.Regexp
	source string
}

func (e expression) String() string { return e.source }

func compilePattern(source string) (jsonschema.Regexp, error) {
	re, err := pattern.Compile(source)
	return expression{re, source}, err
}

// parseNumber reads a JSON number exactly.
func parseNumber(value protocol.Raw) (*big.Rat, error) {
	if value.Kind() != '0' {
		return nil, nil
	}
	if err := checkNumbers(json.Number(value)); err != nil {
		return nil, err
	}
	n, _ := new(big.Rat).SetString(string(value))
	return n, nil
}

// Validate checks a value against the document and returns it decoded. The error is a
// *jsonschema.ValidationError when the value breaks it.
func (d *Document) Validate(value protocol.Raw) (doc any, err error) {
	if err := d.Usable(); err != nil {
		return nil, err
	}
	return validate(d.check, value)
}

func validate(s *jsonschema.Schema, value protocol.Raw) (doc any, err error) {
	if doc, err = decode(value); err != nil {
		return nil, err
	}
	if err := affordable(s, doc, len(value)); err != nil {
		return nil, err
	}
	return doc, s.Validate(doc)
}

// accepts reports whether a value passes the check of a schema. If the check costs too much, it
// returns true.
func (n *node) accepts(value protocol.Raw) bool {
	if n.always != 0 {
		return n.always > 0
	}
	_, err := validate(n.check, value)
	var invalid *jsonschema.ValidationError
	return !errors.As(err, &invalid)
}

// counter counts the steps of a check. A few schemas that refer to each other twice make their
// number double with every level, and nothing interrupts the library.
type counter struct{ left int }

// affordable refuses a check that would take more than maxCheckSteps, plus some for each byte
// of the value.
func affordable(s *jsonschema.Schema, v any, size int) error {
	most := maxCheckSteps + checkStepsPerByte*size
	c := counter{left: most}
	if c.visit(s, v); c.left < 0 {
		return fmt.Errorf("the schema takes more than %d steps to check these arguments", most)
	}
	return nil
}

// visit counts at least the schemas that the library would apply to v and to what is in it. It
// stops when no step is left.
func (c *counter) visit(s *jsonschema.Schema, v any) {
	if s == nil || c.left < 0 {
		return
	}
	c.left--
	all := func(v any, schemas ...*jsonschema.Schema) {
		for _, sub := range schemas {
			c.visit(sub, v)
		}
	}
	all(v, s.Ref, s.Not, s.If, s.Then, s.Else)
	all(v, s.AllOf...)
	all(v, s.AnyOf...)
	all(v, s.OneOf...)
	if s.DynamicRef != nil {
		c.visit(s.DynamicRef.Ref, v)
	}
	switch v := v.(type) {
	case map[string]any:
		all(v, slices.Collect(maps.Values(s.DependentSchemas))...)
		others := append(slices.Collect(maps.Values(s.PatternProperties)), s.UnevaluatedProperties)
		if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
			others = append(others, sub)
		}
		for name, value := range v {
			c.visit(s.PropertyNames, name)
			c.visit(s.Properties[name], value)
			all(value, others...)
		}
	case []any:
		for i, value := range v {
			if i < len(s.PrefixItems) {
				c.visit(s.PrefixItems[i], value)
			}
			all(value, s.Contains, s.Items2020, s.UnevaluatedItems)
		}
	}
}
