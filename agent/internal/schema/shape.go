package schema

import (
	"fmt"
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

// shapes are all ways to satisfy some schemas together.
func (m *maker) shapes(set []*node) []shape {
	list := []shape{{types: allTypes}}
	for _, n := range set {
		list = m.all(list, n, true, nil)
	}
	return list
}

func (m *maker) all(list []shape, n *node, always bool, path []*node) (out []shape) {
	for i := range list {
		more := m.add(&list[i], n, always, path)
		if len(out)+len(more) > maxBranches && len(list) > 1 {
			return list // widened: n is left to the check
		}
		out = append(out, more...)
	}
	return out
}

// add are the shapes that s becomes where n holds, too. path is the schemas that n is applied
// by, to the same value.
func (m *maker) add(s *shape, n *node, always bool, path []*node) []shape {
	switch {
	case n.always > 0:
		return []shape{*s}
	case n.always < 0 || slices.Contains(path, n): // the check refuses references in a circle
		return nil
	case slices.Contains(s.parts, n):
		return []shape{*s}
	}
	if m.parts++; m.parts > maxParts {
		return []shape{*s} // widened
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
	list := []shape{c}
	for _, part := range n.all {
		list = m.all(list, part, always, path)
	}
	for _, ways := range n.choices {
		list = m.either(list, ways, path)
	}
	return list
}

// either is the shapes in which one of the ways is taken.
func (m *maker) either(list []shape, ways []way, path []*node) (out []shape) {
	for _, w := range ways {
		var taken []shape
		for _, s := range list {
			s.types &= w.types
			s.must, s.never = slices.Concat(s.must, w.must), slices.Concat(s.never, w.never)
			if s.types != 0 {
				taken = append(taken, s)
			}
		}
		for _, n := range w.nodes {
			taken = m.all(taken, n, false, path)
		}
		if out = append(out, taken...); len(out) > maxBranches && len(list) > 1 {
			return list // widened
		}
	}
	return out
}

// simplified is a set of schemas without those that say nothing, references followed, in
// order and each once. It is nil, false where one of them refuses everything.
func simplified(set []*node) (out []*node, possible bool) {
	for _, n := range set {
		for hops := 0; hops < maxHops && n.words == 1 && len(n.all) == 1; hops++ {
			n = n.all[0]
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
	return fmt.Sprint(ids)
}

// constants are the values to which a shape is limited, of which the check of the whole set
// takes each; limited is false where it is limited to none.
func constants(set []*node, s *shape) (values []protocol.Raw, limited bool) {
	var from *node
	for _, p := range s.parts {
		if p.values != nil && (from == nil || len(p.values) < len(from.values)) {
			from = p
		}
	}
	if from == nil {
		return nil, false
	}
	simple := len(set) == 1 && len(s.parts) == 1 && (from.words == 1 || from.words == 2 && from.types != allTypes)
	simple = simple || len(from.values) > maxValues // each check takes time with their number, and they are widened
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

// typeOf is the type of a value.
func typeOf(v protocol.Raw) typeSet {
	if integer(v) != nil {
		return integerType
	}
	return typesByKind[v.Kind()]
}
