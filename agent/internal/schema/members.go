package schema

import (
	"slices"

	"agentd/agent/internal/pattern"
	"agentd/protocol"
)

// membersOf is the objects of a shape.
func (m *maker) membersOf(s *shape, whole bool) *members {
	o := &members{max: -1}
	var first []string // required in every shape, or in this one where each declares its members
	must := slices.Clone(s.must)
	var names []string
	var limits []*node
	base := slices.ContainsFunc(s.always, func(p *node) bool { return p.declares })
	closed, declared := true, false
	for _, p := range s.parts {
		o.min, o.max = max(o.min, p.minMember), least(o.max, p.maxMember)
		for _, x := range p.properties {
			if !slices.Contains(names, x.name) {
				names = append(names, x.name)
			}
		}
		must = append(must, p.required...)
		if !base || slices.Contains(s.always, p) {
			first = append(first, p.required...)
		}
		closed = closed && p.additional == nil
		declared = declared || p.declares
		if p.names != nil {
			limits = append(limits, p.names)
		}
	}
	for _, name := range must {
		if !slices.Contains(names, name) {
			names = append(names, name) // with whatever value others may have
		}
	}
	closed = closed && declared && (!m.Open && o.min <= len(names) || m.sealed(s))
	limit := m.namesLimit(limits)
	for _, name := range limit.listed {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var late []slot
	for _, name := range names {
		x := slot{name: name, required: slices.Contains(must, name)}
		if limit.allows(name) && !slices.Contains(s.never, name) {
			x.rule = m.rule(namedParts(s, name)...)
		}
		switch {
		case !x.required && x.rule == nil:
		case slices.Contains(first, name):
			o.slots = append(o.slots, x)
		default:
			late = append(late, x)
		}
	}
	extra := 0
	if whole {
		for _, x := range m.Extra {
			names = append(names, x.Name)
			o.slots = append(o.slots, slot{x.Name, &rule{given: x.Rule, built: true}, true})
			extra++
		}
	}
	if o.max >= 0 {
		o.max += extra
	}
	if o.min > 0 {
		o.min += extra
	}
	o.slots = append(o.slots, late...)
	if limit.listed == nil {
		o.others = m.othersOf(s, slices.Concat(names, s.never), limit, closed)
	}
	return o
}

// sealed reports whether members that no part declares are forbidden because nothing has
// evaluated them. Where alternatives may have, that is left to the check.
func (m *maker) sealed(s *shape) bool {
	return slices.ContainsFunc(s.parts, func(p *node) bool { return p.unevaluated }) &&
		!slices.ContainsFunc(s.parts, func(p *node) bool {
			return p.evaluates || p.anyOf != nil || p.oneOf != nil || p.when != nil || p.dependents != nil || p.not != nil
		})
}

// namedParts are the schemas that hold for the member of a name.
func namedParts(s *shape, name string) (set []*node) {
	for _, p := range s.parts {
		known := false
		for _, x := range p.properties {
			if x.name == name {
				set, known = append(set, x.node), true
			}
		}
		for _, x := range p.patterns {
			if matches(x.name, name) {
				set, known = append(set, x.node), true
			}
		}
		if !known && p.additional != nil {
			set = append(set, p.additional)
		}
	}
	return set
}

func matches(expr, name string) bool {
	re, err := pattern.Compile(expr)
	return err == nil && re.MatchString(name)
}

// limit restricts the names of members.
type limit struct {
	nodes  []*node
	listed []string // all that they may be, nil where they are not listed
	texts  texts    // a description of the names, if they are not listed
}

func (m *maker) namesLimit(nodes []*node) limit {
	l := limit{nodes: nodes, texts: texts{max: -1}}
	set, possible := simplified(nodes)
	if !possible {
		l.listed = []string{}
		return l
	}
	if len(set) == 0 {
		return l
	}
	shapes := m.shapes(set)
	found := false
	for i := range shapes {
		s := &shapes[i]
		if s.types&stringType == 0 {
			continue
		}
		values, limited := constants(set, s)
		if !limited && found || len(shapes) > 1 && !limited {
			return limit{nodes: nodes, texts: texts{max: -1}} // left to the check
		}
		if found = true; !limited {
			l.texts, _ = textsOf(s)
			return l
		}
		for _, v := range values {
			if name, ok := protocol.Text(v); ok {
				l.listed = append(l.listed, name)
			}
		}
	}
	if l.listed == nil {
		l.listed = []string{}
	}
	return l
}

// allows reports whether a member may have a name.
func (l *limit) allows(name string) bool {
	return !slices.ContainsFunc(l.nodes, func(n *node) bool { return !n.accepts(protocol.String(name)) })
}

// othersOf is the members that have no place of their own, by what patterns say of their
// names.
func (m *maker) othersOf(s *shape, names []string, limit limit, closed bool) (list []others) {
	var patterns []string
	for _, p := range s.parts {
		for _, x := range p.patterns {
			if !slices.Contains(patterns, x.name) {
				patterns = append(patterns, x.name)
			}
		}
	}
	many := len(patterns) > maxNamePattern
	for chosen := range 1 << min(len(patterns), maxNamePattern) {
		if closed && chosen == 0 && !many {
			continue
		}
		l := limit.texts.language()
		l.Except = names
		has := func(expr string) bool {
			i := slices.Index(patterns, expr)
			return chosen>>i&1 == 1
		}
		for _, expr := range patterns {
			switch {
			case many:
			case has(expr):
				l.Match = append(l.Match, expr)
			default:
				l.Avoid = append(l.Avoid, expr)
			}
		}
		var set []*node
		for _, p := range s.parts {
			known := false
			for _, x := range p.patterns {
				if has(x.name) {
					set, known = append(set, x.node), true
				}
			}
			if !known && p.additional != nil {
				set = append(set, p.additional)
			}
		}
		if many {
			set = nil // widened
		}
		if r := m.rule(set...); r != nil {
			list = append(list, others{names: l, rule: r, any: len(names)+len(l.Match)+len(l.Avoid) == 0 && l.Min == 0 && l.Max < 0})
		}
		if many {
			break
		}
	}
	return list
}
