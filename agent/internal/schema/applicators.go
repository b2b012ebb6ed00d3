package schema

import (
	"strconv"

	"agentd/agent/internal/rawjson"
	"agentd/protocol"
)

// applicator reads a keyword that holds schemas.
func (r *reader) applicator(name string, value protocol.Raw) (err error) {
	n := r.node
	switch name {
	case "allOf":
		n.allOf, err = r.schemas(name, name, value)
	case "anyOf":
		n.anyOf, err = r.schemas(name, name, value)
	case "oneOf":
		n.oneOf, err = r.schemas(name, name, value)
	case "not":
		n.not, err = r.schema(name, name, value)
	case "if":
		n.when, err = r.schema(name, name, value)
	case "then":
		n.then, err = r.schema(name, name, value)
	case "else":
		n.other, err = r.schema(name, name, value)
	case "prefixItems":
		n.prefix, err = r.schemas(name, name, value)
	case "items":
		if value.Kind() != '[' {
			n.items, err = r.schema(name, name, value)
			break
		}
		// The list of the drafts before 2020, whatever the schema says of its draft.
		if n.prefix, err = r.schemas(name, "prefixItems", value); err == nil && r.value("additionalItems") != nil {
			n.items, err = r.schema("additionalItems", "items", r.value("additionalItems"))
		}
	case "contains":
		if n.minContains == 0 && r.value("minContains") == nil {
			n.minContains = 1
		}
		n.bare = r.value("minContains") == nil && r.value("maxContains") == nil || r.draft <= 7
		n.contains, err = r.schema(name, name, value)
	case "properties":
		n.declares = true
		n.properties, err = r.byName(name, value)
	case "patternProperties":
		n.declares = true
		n.patterns, err = r.byName(name, value)
	case "additionalProperties":
		n.additional, err = r.schema(name, name, value)
	case "propertyNames":
		n.names, err = r.schema(name, name, value)
	case "unevaluatedProperties", "unevaluatedItems":
		if r.vague() {
			break // what evaluates members is not known
		}
		if name == "unevaluatedProperties" {
			n.unevaluated, n.evaluates = string(value) == "false", string(value) != "false"
		}
		_, err = r.schema(name, name, value)
	case "dependentRequired", "dependentSchemas", "dependencies":
		err = r.dependents(name, value)
	}
	return err
}

// schema reads a keyword that is a schema; out is the keyword's name for the check.
func (r *reader) schema(name, out string, value protocol.Raw) (*node, error) {
	c, err := r.child(r.node, name, out, value)
	if err == nil {
		r.out[out] = c.exported
	}
	return c, err
}

// schemas reads a keyword that is a list of schemas.
func (r *reader) schemas(name, out string, value protocol.Raw) (list []*node, err error) {
	if value.Kind() != '[' {
		return nil, r.keep(name, value)
	}
	exported := []any{}
	for e := range protocol.Elements(value) {
		i := strconv.Itoa(len(list))
		c, err := r.child(r.node, name+"/"+i, out+"/"+i, e)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
		exported = append(exported, c.exported)
	}
	// References beside each other have been put into the list.
	if more, ok := r.out[out].([]any); ok && out == "allOf" {
		exported = append(exported, more...)
	}
	if r.out[out] = exported; len(list) == 0 && out == "prefixItems" {
		delete(r.out, out) // the check wants one element
	}
	return list, nil
}

// byName reads a keyword that is an object of schemas.
func (r *reader) byName(name string, value protocol.Raw) (list []member, err error) {
	if value.Kind() != '{' {
		return nil, r.keep(name, value)
	}
	exported := map[string]any{}
	for key, raw := range protocol.Members(value) {
		at := name + "/" + escapeToken(key)
		c, err := r.child(r.node, at, at, raw)
		if err != nil {
			return nil, err
		}
		list = append(list, member{key, c})
		exported[key] = c.exported
	}
	r.out[name] = exported
	return list, nil
}

// dependents reads what must hold where a member is there.
func (r *reader) dependents(name string, value protocol.Raw) error {
	if value.Kind() != '{' {
		return r.keep(name, value)
	}
	exported := map[string]any{}
	for key, raw := range protocol.Members(value) {
		if raw.Kind() == '[' && name != "dependentSchemas" {
			required, err := rawjson.Strings(raw)
			if err != nil {
				return r.keep(name, value)
			}
			exported[key] = list(required)
			r.node.dependents = append(r.node.dependents, dependent{name: key, required: required})
			continue
		}
		at := name + "/" + escapeToken(key)
		c, err := r.child(r.node, at, at, raw)
		if err != nil {
			return err
		}
		exported[key] = c.exported
		r.node.dependents = append(r.node.dependents, dependent{name: key, schema: c})
	}
	r.out[name] = exported
	return nil
}
