package tools

import (
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/schema"
	"agentd/protocol"
)

// annotations demand nothing of a value.
var annotations = []string{"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema"}

// flatten writes out the $ref at the top of a tool's parameters, which libraries make of types: the robot becomes a
// property beside the tool's. The check of calls and the grammar keep the schema.
func flatten(whole protocol.Raw, document *schema.Document) (protocol.Raw, error) {
	flat, where, pointer := whole, "parameters", ""
	for followed := map[string]bool{}; hasAny(flat, "$ref"); where += ".$ref" {
		target, err := document.Target(pointer)
		if err != nil {
			return nil, fmt.Errorf("its parameters are not a usable JSON Schema: %w", err)
		}
		part, ok := schema.ValueAt(whole, target)
		if !ok || target == "" || followed[target] {
			return nil, fmt.Errorf("%s.$ref leads back to itself; write the schema itself there", where)
		}
		if flat, err = merge(protocol.DeleteMember(flat, "$ref"), part, where); err != nil {
			return nil, err
		}
		followed[target], pointer = true, target
	}
	for keyword, value := range protocol.Members(flat) {
		switch keyword {
		case "const", "enum":
			return nil, fmt.Errorf("%s.%s fixes the arguments as a whole, and a call has the robot among them; give each parameter its own", where, keyword)
		case "anyOf", "oneOf":
			if err := refines(flat, value, where+"."+keyword); err != nil {
				return nil, err
			}
		}
	}
	if bare := protocol.DeleteMember(protocol.DeleteMember(flat, "$defs"), "definitions"); pointer != "" && !strings.Contains(string(bare), `"$ref"`) {
		return bare, nil // nothing leads to them any more
	}
	return flat, nil
}

// merge adds the members of the part to which a $ref leads: what its parameters are, then the others.
func merge(flat, part protocol.Raw, where string) (protocol.Raw, error) {
	if typ, ok := protocol.Get(part, "type"); ok {
		if err := objectType(typ, where+".$ref"); err != nil {
			return nil, err
		}
	}
	parameters := []string{"properties", "required", "additionalProperties"}
	for _, first := range []bool{true, false} {
		for keyword, value := range protocol.Members(part) {
			if slices.Contains(parameters, keyword) != first {
				continue
			}
			switch beside, ok := protocol.Get(flat, keyword); {
			case !ok, string(beside) == "{}":
				flat = protocol.SetMember(flat, keyword, value)
			case keyword != "type" && !slices.Contains(annotations, keyword):
				return nil, fmt.Errorf("%s has %s beside its $ref, and so has what that leads to; write it in one place", where, keyword)
			}
		}
	}
	if len(flat) > MaxToolBytes {
		return nil, fmt.Errorf("parameters are more than %d bytes once their $ref is written out", MaxToolBytes)
	}
	return flat, nil
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
func refines(whole, alternatives protocol.Raw, where string) error {
	declared, _ := protocol.Get(whole, "properties")
	for alternative := range protocol.Elements(alternatives) {
		for keyword, value := range protocol.Members(alternative) {
			switch {
			case keyword == "required", keyword == "not", slices.Contains(annotations, keyword), keyword == "type" && namesObject(value):
			case keyword == "properties" && value.Kind() == '{' && onlyHas(value, declared):
			default:
				return fmt.Errorf("%s has alternatives with %s; they may only say which parameters are required and more of those that are declared: declare all parameters under properties, or make each alternative a tool", where, keyword)
			}
		}
	}
	return nil
}

// onlyHas reports whether another object has all names of an object.
func onlyHas(obj, other protocol.Raw) bool {
	for name := range protocol.Members(obj) {
		if !hasAny(other, name) {
			return false
		}
	}
	return true
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
