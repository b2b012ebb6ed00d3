package schema

import (
	"encoding/binary"
	"slices"

	"agentd/protocol"
)

// shape is one way to satisfy some schemas: the parts are those whose own keywords all hold.
// What their alternatives come to are several shapes.
type shape struct {
	types  typeSet
	parts  []*node
	always []*node // of the parts, those that are in every shape
	must   []string
	never  []string
}

func (s *shape) clone() shape {
	c := *s
	c.parts, c.always = slices.Clip(s.parts), slices.Clip(s.always)
	c.must, c.never = slices.Clip(s.must), slices.Clip(s.never)
	return c
}

// expander finds the shapes of schemas that hold together.
type expander struct{ left int }

// shapes are all ways to satisfy some schemas together.
func (x *expander) shapes(set []*node) []shape {
	list := []shape{{types: allTypes}}
	for _, n := range set {
		list = x.all(list, n, true, nil)
	}
	return list
}

func (x *expander) all(list []shape, n *node, always bool, path []*node) (out []shape) {
	for i := range list {
		more := x.add(&list[i], n, always, path)
		if len(out)+len(more) > maxBranches && len(list) > 1 {
			return list // widened: n is left to the check
		}
		out = append(out, more...)
	}
	return out
}

// add are the shapes that s becomes where n holds, too. path is the schemas that n is applied
// by, to the same value.
func (x *expander) add(s *shape, n *node, always bool, path []*node) []shape {
	switch {
	case n.always > 0:
		return []shape{*s}
	case n.always < 0 || slices.Contains(path, n): // the check refuses references in a circle
		return nil
	case slices.Contains(s.parts, n):
		return []shape{*s}
	}
	if x.left--; x.left < 0 {
		return []shape{*s} // widened
	}
	c := s.clone()
	c.types &= n.types
	c.parts = append(c.parts, n)
	if always {
		c.always = append(c.always, n)
	}
	if c.types == 0 {
		return nil
	}
	path = append(slices.Clip(path), n)
	list := []shape{c}
	for _, part := range slices.Concat(n.refs, n.allOf) {
		list = x.all(list, part, always, path)
	}
	if n.anyOf != nil {
		list = x.either(list, n.anyOf, path, false)
	}
	if n.oneOf != nil {
		list = x.either(list, n.oneOf, path, true)
	}
	if n.not != nil {
		list = x.without(list, n.not)
	}
	if n.when != nil && (n.then != nil || n.other != nil) {
		list = x.conditional(list, n, path)
	}
	for i := range n.dependents {
		list = x.dependent(list, &n.dependents[i], path)
	}
	return list
}

// either is the shapes in which one of the alternatives holds. Where no other may hold beside
// it, it has no value of a type that another one admits as a whole; further values of which
// two hold are left to the check.
func (x *expander) either(list []shape, alternatives []*node, path []*node, alone bool) (out []shape) {
	for i, a := range alternatives {
		var others typeSet
		for j, b := range alternatives {
			if alone && j != i && b.onlyType() {
				others |= b.types
			}
		}
		for _, s := range x.all(list, a, false, path) {
			if s.types &^= others; s.types != 0 {
				out = append(out, s)
			}
		}
		if len(out) > maxBranches && len(list) > 1 {
			return list
		}
	}
	return out
}

// onlyType reports whether a schema is a type and nothing else.
func (n *node) onlyType() bool { return n.words == 1 && n.types != allTypes }

// without takes out what the schema of a not says in a simple way; the rest is checked.
func (x *expander) without(list []shape, not *node) []shape {
	switch {
	case not.free():
		return nil
	case not.words != 1:
	case len(not.required) == 1: // of objects
		for i := range list {
			list[i] = list[i].clone()
			list[i].types &= objectType // required holds of all other values
			list[i].never = append(list[i].never, not.required[0])
		}
		return slices.DeleteFunc(list, func(s shape) bool { return s.types == 0 })
	case not.types != allTypes:
		out := list[:0:0]
		for _, s := range list {
			if s.types &^= not.types; s.types != 0 {
				out = append(out, s)
			}
		}
		return out
	}
	return list
}

// conditional is the shapes in which if and then hold, and those of else.
func (x *expander) conditional(list []shape, n *node, path []*node) []shape {
	yes := x.all(list, n.when, false, path)
	if n.then != nil {
		yes = x.all(yes, n.then, false, path)
	}
	no := list
	switch {
	case n.when.free():
		no = nil
	case n.other != nil:
		no = x.all(list, n.other, false, path)
	}
	if len(yes)+len(no) > maxBranches && len(list) > 1 {
		return list
	}
	return append(slices.Clip(yes), no...)
}

// dependent is the shapes without a member, and those with it and what depends on it.
func (x *expander) dependent(list []shape, d *dependent, path []*node) (out []shape) {
	if 2*len(list) > maxBranches {
		return list
	}
	for i := range list {
		c := list[i].clone()
		c.never = append(c.never, d.name)
		out = append(out, c)
		if c = list[i].clone(); c.types&objectType == 0 {
			continue
		}
		c.types = objectType
		c.must = append(append(c.must, d.name), d.required...)
		with := []shape{c}
		if d.schema != nil {
			with = x.all(with, d.schema, false, path)
		}
		out = append(out, with...)
	}
	return out
}

// free reports whether a node says nothing at all of a value.
func (n *node) free() bool { return n.always > 0 || n.always == 0 && n.words == 0 }

// simplified is a set of schemas without those that say nothing, references followed, in
// order and each once. It is nil, false where one of them refuses everything.
func simplified(set []*node) (out []*node, possible bool) {
	for _, n := range set {
		for hops := 0; hops < maxHops && n.words == 1 && len(n.refs) == 1; hops++ {
			n = n.refs[0]
		}
		switch {
		case n.always < 0:
			return nil, false
		case n.free() || slices.Contains(out, n):
		default:
			out = append(out, n)
		}
	}
	return out, true
}

// keyOf tells sets of schemas apart, whatever their order.
func keyOf(set []*node) string {
	ids := make([]int, len(set))
	for i, n := range set {
		ids[i] = n.id
	}
	slices.Sort(ids)
	var b []byte
	for _, id := range ids {
		b = binary.AppendUvarint(b, uint64(id))
	}
	return string(b)
}

// constants are the values to which a shape is limited, of which the check of the whole set
// takes each; limited is false where it is limited to none.
func constants(set []*node, s *shape) (values []protocol.Raw, limited bool) {
	var from *node
	for _, p := range s.parts {
		if p.enumerated && (from == nil || len(p.values) < len(from.values)) {
			from = p
		}
	}
	if from == nil {
		return nil, false
	}
	typed := from.types != allTypes
	simple := len(set) == 1 && len(s.parts) == 1 && (from.words == 1 || from.words == 2 && typed)
	for _, v := range from.values {
		if s.types&typeOf(v) == 0 {
			continue
		}
		if simple || !slices.ContainsFunc(set, func(n *node) bool { return !n.accepts(v) }) {
			values = append(values, v)
		}
	}
	return values, true
}

// typeOf is the type of a value.
func typeOf(v protocol.Raw) typeSet {
	switch v.Kind() {
	case '{':
		return objectType
	case '[':
		return arrayType
	case '"':
		return stringType
	case 't', 'f':
		return booleanType
	case '0':
		if x, err := parseNumber(v); err == nil && x != nil && x.IsInt() {
			return integerType
		}
		return fractionType
	}
	return nullType
}
