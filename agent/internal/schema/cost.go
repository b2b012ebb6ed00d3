package schema

import (
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// counter counts the steps of a check. A few schemas that refer to each other
// twice make their number double with every level, and nothing interrupts the
// library.
type counter struct{ left int }

// affordable refuses a check that would take more than maxCheckSteps, plus some
// for each byte of the value.
func affordable(schema *jsonschema.Schema, v any, size int) error {
	most := maxCheckSteps + checkStepsPerByte*size
	c := counter{left: most}
	if err := c.visit(schema, v); err != nil {
		return err
	}
	if c.left < 0 {
		return fmt.Errorf("the schema takes more than %d steps to check these arguments", most)
	}
	return nil
}

// visit counts at least the schemas that the library would apply to v and to
// what is in it. It stops when no step is left.
func (c *counter) visit(s *jsonschema.Schema, v any) error {
	if c.left--; s == nil || c.left < 0 {
		return nil
	}
	refs := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil { // only the schema of schemas has them here
		refs = append(refs, s.DynamicRef.Ref)
	}
	for _, list := range [][]*jsonschema.Schema{refs, s.AllOf, s.AnyOf, s.OneOf} {
		for _, sub := range list {
			if sub == nil {
				continue
			}
			if err := c.visit(sub, v); err != nil {
				return err
			}
		}
	}
	switch v := v.(type) {
	case map[string]any:
		return c.object(s, v)
	case []any:
		return c.array(s, v)
	}
	return nil
}

func (c *counter) object(s *jsonschema.Schema, v map[string]any) error {
	for _, dependent := range s.DependentSchemas {
		if err := c.visit(dependent, v); err != nil {
			return err
		}
	}
	for _, dependent := range s.Dependencies {
		if sub, ok := dependent.(*jsonschema.Schema); ok {
			if err := c.visit(sub, v); err != nil {
				return err
			}
		}
	}
	others := []*jsonschema.Schema{s.UnevaluatedProperties}
	if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		others = append(others, sub)
	}
	for _, sub := range s.PatternProperties {
		others = append(others, sub)
	}
	for name, value := range v {
		if s.PropertyNames != nil {
			if err := c.visit(s.PropertyNames, name); err != nil {
				return err
			}
		}
		if err := c.all(append(others, s.Properties[name]), value); err != nil {
			return err
		}
	}
	return nil
}

func (c *counter) array(s *jsonschema.Schema, v []any) error {
	others := []*jsonschema.Schema{s.Contains, s.Items2020, s.UnevaluatedItems}
	for _, items := range []any{s.Items, s.AdditionalItems} {
		if sub, ok := items.(*jsonschema.Schema); ok {
			others = append(others, sub)
		}
	}
	each := s.PrefixItems
	if list, ok := s.Items.([]*jsonschema.Schema); ok {
		each = list
	}
	for i, value := range v {
		if i < len(each) {
			if err := c.visit(each[i], value); err != nil {
				return err
			}
		}
		if err := c.all(others, value); err != nil {
			return err
		}
	}
	return nil
}

// all visits a value with those of some schemas that there are.
func (c *counter) all(schemas []*jsonschema.Schema, v any) error {
	for _, sub := range schemas {
		if sub == nil {
			continue
		}
		if err := c.visit(sub, v); err != nil {
			return err
		}
	}
	return nil
}
