package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/protocol"
)

// array returns the body of an array rule, "" if it admits nothing.
func (w *writer) array(e *arrayRule) string {
	if !e.admits() {
		return ""
	}
	declared, most := e.prefix, e.max
	if !e.items.satisfiable() {
		most = smallerMax(most, len(declared))
	}
	if i := slices.IndexFunc(declared, func(r *rule) bool { return !r.satisfiable() }); i >= 0 {
		most = smallerMax(most, i)
	}
	if most >= 0 {
		declared = declared[:min(most, len(declared))]
	}
	s := w.Seq().Open("[")
	switch {
	case most == 0:
	case e.contains != nil:
		item, contains := w.rule(e.items), w.rule(e.contains)
		s.Text("(" + w.Seq().Text(item).Comma().String() + ")*").Text(contains).Text("(" + w.Seq().Comma().Text(item).String() + ")*")
	case len(declared) == 0 && e.items.any && e.min == 0 && most < 0:
		return w.JSON(gbnf.AnyArray)
	default:
		s.Text(w.sequence(declared, e.items, e.min, most))
	}
	return s.Close("]").String()
}

// sequence returns the body of an array's elements: the declared ones, then items, from least to most in all.
func (w *writer) sequence(declared []*rule, items *rule, least, most int) (body string) {
	if most < 0 || most > len(declared) {
		if len(declared) == 0 {
			declared = []*rule{items}
		}
		if n := len(declared); most != n {
			body = w.repeated(w.Rule(w.Seq().Comma().Text(w.rule(items)).String()), max(least-n, 0), max(most-n, -1))
		}
	}
	for i := len(declared) - 1; i >= 0; i-- {
		s := w.Seq()
		if i > 0 {
			s.Comma()
		}
		s.Text(w.rule(declared[i]))
		if body != "" {
			s.Text(body)
		}
		if body = s.String(); least <= i {
			body = w.Rule(body) + "?"
		}
	}
	return body
}

// object returns the body of an object rule, "" if it admits nothing.
func (w *writer) object(o *objectRule) string {
	if !o.admits() {
		return ""
	}
	c := memberChain{writer: w, min: o.min, max: o.max, memo: map[[2]int]ending{}}
	c.properties = slices.DeleteFunc(slices.Clone(o.properties), func(s property) bool { return !s.rule.satisfiable() })
	var undeclared []string
	for _, x := range o.undeclared {
		if !x.rule.satisfiable() {
			continue
		}
		if x.names.Any() && x.rule.any && len(c.properties) == 0 && o.min == 0 && o.max < 0 && len(o.undeclared) == 1 {
			return w.JSON(gbnf.AnyObject)
		}
		if name := w.language(x.names); name != "" {
			undeclared = append(undeclared, w.Seq().Text(name).Colon().Text(w.rule(x.rule)).String())
		}
	}
	c.last = len(c.properties)
	if len(undeclared) > 0 {
		c.undeclared = w.Rule(strings.Join(undeclared, " | "))
		c.last++
	} else if c.max >= len(c.properties) {
		c.max = -1
	}
	if (c.last+1)*(max(c.min, c.max)+1) > maxCounted {
		c.min, c.max = 0, -1 // widened
	}
	all := c.rest(0, 0)
	if !all.possible {
		return ""
	}
	s := w.Seq().Open("{")
	if all.body != "" {
		s.Text(all.body)
	}
	return s.Close("}").String()
}

// memberChain writes the members of an object in order.
type memberChain struct {
	*writer
	properties []property
	undeclared string // the rule of undeclared members, "" for none
	last       int    // number of kinds of members, with the undeclared ones
	min, max   int
	memo       map[[2]int]ending // results of rest
}

// ending is the body of the rest of an object; not possible: no rest satisfies min and max.
type ending struct {
	body     string
	possible bool
}

func (c *memberChain) pair(s *gbnf.Seq, i int) *gbnf.Seq {
	if i == len(c.properties) {
		return s.Text(c.undeclared)
	}
	return s.Literal(string(protocol.String(c.properties[i].name))).Colon().Text(c.rule(c.properties[i].rule))
}

// rest returns the body of the members from the i-th on, after n members.
func (c *memberChain) rest(i, n int) ending {
	if c.max < 0 {
		n = min(n, max(c.min, 1))
	}
	at := [2]int{i, n}
	if known, ok := c.memo[at]; ok {
		return known
	}
	var alternatives []string
	switch {
	case i == c.last:
		if n >= c.min {
			alternatives = append(alternatives, "")
		}
	case i == len(c.properties) && c.max < 0 && n >= c.min && n > 0:
		alternatives = append(alternatives, "("+c.pair(c.Seq().Comma(), i).String()+")*")
	default:
		alternatives = c.continuations(i, n)
	}
	end := ending{strings.Join(alternatives, " | "), len(alternatives) > 0}
	if len(alternatives) > 1 {
		end.body = c.Rule(end.body)
	}
	c.memo[at] = end
	return end
}

// continuations returns the bodies of the rest from the i-th member on: with that member, and without it.
func (c *memberChain) continuations(i, n int) (alternatives []string) {
	if c.max < 0 || n < c.max {
		if rest := c.rest(min(i+1, len(c.properties)), n+1); rest.possible { // undeclared members repeat
			s := c.Seq()
			if n > 0 {
				s.Comma()
			}
			if c.pair(s, i); rest.body != "" {
				s.Text(rest.body)
			}
			alternatives = append(alternatives, s.String())
		}
	}
	if i < len(c.properties) && c.properties[i].required {
		return alternatives
	}
	if rest := c.rest(i+1, n); rest.possible {
		alternatives = append(alternatives, cmp.Or(rest.body, `""`))
	}
	return alternatives
}

// branch is one combination of alternatives of a set of schemas. A value must match all of its parts.
type branch struct {
	types     typeSet
	parts     []*node
	always    []*node // the parts that are in every branch
	required  []string
	forbidden []string
}

func (m *compiler) branches(set []*node) []branch {
	list := []branch{{types: allTypes}}
	for _, n := range set {
		list = m.conjoin(list, n, true, nil)
	}
	return list
}

// conjoin adds a schema to each branch of a list. If that gives too many branches, it returns list.
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

// extend returns the branches of s and n together. path has the schemas that refer to n, to find cycles.
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

// simplified follows references and drops unconstrained or repeated schemas. possible is false if any is false.
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

// constants returns the values of a branch's enum or const that pass the check. limited: the branch has one.
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
		if s.types&typeOf(v) == 0 || !simple && !allAccept(set, v) {
			continue
		}
		values = append(values, v)
		if x := integer(v); x != nil && len(x.String()) <= maxBoundDigits {
			values = append(values, protocol.Raw(x.String())) // 2.0 is 2, too
		}
	}
	return values, true
}

func typeOf(v protocol.Raw) typeSet {
	if integer(v) != nil {
		return integerType
	}
	return typesByKind[v.Kind()]
}
