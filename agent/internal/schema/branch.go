package schema

import (
	"fmt"
	"slices"

	"agentd/protocol"
)

// branch is one combination of alternatives that satisfies a set of schemas. The keywords of all
// its parts hold; the alternatives of the parts are decided.
type branch struct {
	types     typeSet
	parts     []*node
	always    []*node // the parts that are in every branch
	required  []string
	forbidden []string
}

// branches returns all combinations of alternatives that satisfy a set of schemas.
func (m *compiler) branches(set []*node) []branch {
	list := []branch{{types: allTypes}}
	for _, n := range set {
		list = m.conjoin(list, n, true, nil)
	}
	return list
}

// conjoin adds a schema to each branch of a list.
func (m *compiler) conjoin(list []branch, n *node, always bool, path []*node) (out []branch) {
	for i := range list {
		more := m.extend(&list[i], n, always, path)
		if len(out)+len(more) > maxBranches && len(list) > 1 {
			return list // widened: n is left to the check
		}
		out = append(out, more...)
	}
	return out
}

// extend returns the branches that s becomes if n holds, too. path has the schemas that apply n
// to the same value.
func (m *compiler) extend(s *branch, n *node, always bool, path []*node) []branch {
	switch {
	case n.always > 0:
		return []branch{*s}
	case n.always < 0 || slices.Contains(path, n): // the check refuses references in a circle
		return nil
	case slices.Contains(s.parts, n):
		return []branch{*s}
	}
	if m.parts++; m.parts > maxParts {
		return []branch{*s} // widened
	}
	c := *s
	c.types &= n.types
	c.parts = append(slices.Clip(s.parts), n)
	if always {
		c.always = append(slices.Clip(s.always), n)
	}
	if c.types == 0 {
		return nil
	}
	path = append(slices.Clip(path), n)
	list := []branch{c}
	for _, part := range n.all {
		list = m.conjoin(list, part, always, path)
	}
	for _, alternatives := range n.choices {
		list = m.choose(list, alternatives, path)
	}
	return list
}

// choose splits each branch of a list by alternatives.
func (m *compiler) choose(list []branch, alternatives []alternative, path []*node) (out []branch) {
	for _, a := range alternatives {
		var taken []branch
		for _, s := range list {
			s.types &= a.types
			s.required, s.forbidden = slices.Concat(s.required, a.required), slices.Concat(s.forbidden, a.forbidden)
			if s.types != 0 {
				taken = append(taken, s)
			}
		}
		for _, n := range a.nodes {
			taken = m.conjoin(taken, n, false, path)
		}
		if out = append(out, taken...); len(out) > maxBranches && len(list) > 1 {
			return list // widened
		}
	}
	return out
}

// simplified drops unconstrained schemas and duplicates from a set, and follows references. It
// returns false if a schema refuses every value.
func simplified(set []*node) (out []*node, possible bool) {
	for _, n := range set {
		for hops := 0; hops < maxHops && n.constraints == 1 && len(n.all) == 1; hops++ {
			n = n.all[0]
		}
		switch {
		case n.always < 0:
			return nil, false
		case n.unconstrained() || slices.Contains(out, n):
		default:
			out = append(out, n)
		}
	}
	return out, true
}

// keyOf returns an order-independent key of a set of schemas.
func keyOf(set []*node) string {
	ids := make([]int, len(set))
	for i, n := range set {
		ids[i] = n.id
	}
	slices.Sort(ids)
	return fmt.Sprint(ids)
}

// constants returns the values of the enum or const that limits a branch and that pass the check
// of the whole set. limited is false without such a keyword.
func constants(set []*node, s *branch) (values []protocol.Raw, limited bool) {
	var from *node
	for _, p := range s.parts {
		if p.values != nil && (from == nil || len(p.values) < len(from.values)) {
			from = p
		}
	}
	if from == nil {
		return nil, false
	}
	simple := len(set) == 1 && len(s.parts) == 1 && (from.constraints == 1 || from.constraints == 2 && from.types != allTypes)
	simple = simple || len(from.values) > maxValues // checking each would take long, and they are widened anyway
	for _, v := range from.values {
		if s.types&typeOf(v) == 0 || !simple && slices.ContainsFunc(set, func(n *node) bool { return !n.accepts(v) }) {
			continue
		}
		values = append(values, v)
		if x := integer(v); x != nil && len(x.String()) <= maxBoundDigits {
			values = append(values, protocol.Raw(x.String())) // 2.0 is 2, too
		}
	}
	return values, true
}

// typeOf returns the type of a value.
func typeOf(v protocol.Raw) typeSet {
	if integer(v) != nil {
		return integerType
	}
	return typesByKind[v.Kind()]
}
