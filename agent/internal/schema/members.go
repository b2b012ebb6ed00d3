package schema

import (
	"slices"

	"agentd/agent/internal/pattern"
	"agentd/protocol"
)

// membersOf is the objects of a shape.
func (m *maker) membersOf(s *shape, whole bool) *members {
	o := &members{max: -1}
	var names, first []string // first are required in every shape, or in this one where each declares its members
	must := union(nil, s.must...)
	var limits []*node
	base := slices.ContainsFunc(s.always, func(p *node) bool { return p.declares })
	closed, declared := true, false
	for _, p := range s.parts {
		within(&o.min, &o.max, p.check.MinProperties, p.check.MaxProperties)
		for _, x := range p.properties {
			names = union(names, x.name)
		}
		must = union(must, p.check.Required...)
		if !base || slices.Contains(s.always, p) {
			first = append(first, p.check.Required...)
		}
		closed = closed && p.additional == nil
		declared = declared || p.declares
		if p.names != nil {
			limits = append(limits, p.names)
		}
	}
	names = union(names, must...) // with whatever value others may have
	closed = closed && declared && (!m.Open && o.min <= len(names) || m.sealed(s))
	listed, allowed := m.namesLimit(limits)
	names = union(names, listed...)
	var late []slot
	for _, name := range names {
		x := slot{name: name, required: slices.Contains(must, name)}
		refuses := func(n *node) bool { return !n.accepts(protocol.String(name)) }
		if !slices.ContainsFunc(limits, refuses) && !slices.Contains(s.never, name) {
			x.rule = m.rule(s.named(name)...)
		}
		switch {
		case !x.required && x.rule == nil:
		case slices.Contains(first, name):
			o.slots = append(o.slots, x)
		default:
			late = append(late, x)
		}
	}
	o.required = len(must)
	if whole {
		for _, x := range m.Extra {
			names = append(names, x.Name)
			o.slots = append(o.slots, slot{x.Name, &rule{given: x.Rule, built: true}, true})
		}
		o.required += len(m.Extra)
		o.min += len(m.Extra)
		if o.max >= 0 {
			o.max += len(m.Extra)
		}
	}
	if o.min <= o.required {
		o.min = 0
	}
	o.slots = append(o.slots, late...)
	if listed == nil {
		o.others = m.othersOf(s, slices.Concat(names, s.never), allowed, closed)
	}
	return o
}

// union appends the names that a list doesn't have.
func union(list []string, names ...string) []string {
	for _, name := range names {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// sealed reports whether members that no part declares are forbidden because nothing has
// evaluated them. Where alternatives may have, that is left to the check.
func (m *maker) sealed(s *shape) bool {
	return slices.ContainsFunc(s.parts, func(p *node) bool { return p.unevaluated }) &&
		!slices.ContainsFunc(s.parts, func(p *node) bool {
			return p.evaluates || p.choices != nil
		})
}

// named are the schemas that hold for the member of a name.
func (s *shape) named(name string) []*node {
	return s.member(func(x member) bool { return x.name == name }, func(x member) bool {
		re, err := pattern.Compile(x.name)
		return err == nil && re.MatchString(name)
	})
}

// member is the schemas that hold for a member, by the properties and the patterns that its name
// has.
func (s *shape) member(has, matches func(member) bool) (set []*node) {
	for _, p := range s.parts {
		known := false
		add := func(list []member, holds func(member) bool) {
			for _, x := range list {
				if holds(x) {
					set, known = append(set, x.node), true
				}
			}
		}
		add(p.properties, has)
		add(p.patterns, matches)
		if !known && p.additional != nil {
			set = append(set, p.additional)
		}
	}
	return set
}

// namesLimit is what names of members are limited to: a list, nil where they are not listed, or
// a language.
func (m *maker) namesLimit(limits []*node) (listed []string, allowed pattern.Language) {
	allowed = pattern.Language{Max: -1}
	set, possible := simplified(limits)
	if possible && len(set) == 0 {
		return nil, allowed
	}
	r := &rule{set: set, except: allTypes &^ stringType}
	if possible {
		m.build(r)
	}
	switch listed = r.strings(); {
	case len(r.texts) == 0:
		return listed, allowed
	case len(r.texts) == 1 && len(listed) == 0:
		return nil, r.texts[0]
	}
	return nil, allowed // left to the check
}

// othersOf is the members that have no place of their own, by what patterns say of their
// names.
func (m *maker) othersOf(s *shape, names []string, allowed pattern.Language, closed bool) (list []others) {
	var patterns []string
	for _, p := range s.parts {
		for _, x := range p.patterns {
			patterns = union(patterns, x.name)
		}
	}
	allowed.Except = names
	if len(patterns) > maxNamePattern { // widened
		return []others{{allowed, m.rule()}}
	}
	for chosen := range 1 << len(patterns) {
		if closed && chosen == 0 {
			continue
		}
		l := allowed
		l.Match, l.Avoid = slices.Clip(l.Match), slices.Clip(l.Avoid)
		has := func(x member) bool { return chosen>>slices.Index(patterns, x.name)&1 == 1 }
		for _, expr := range patterns {
			if has(member{name: expr}) {
				l.Match = append(l.Match, expr)
			} else {
				l.Avoid = append(l.Avoid, expr)
			}
		}
		if r := m.rule(s.member(func(member) bool { return false }, has)...); r != nil {
			list = append(list, others{l, r})
		}
	}
	return list
}
