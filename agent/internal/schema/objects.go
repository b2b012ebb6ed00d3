package schema

import (
	"slices"

	"agentd/agent/internal/pattern"
	"agentd/protocol"
)

func (m *compiler) objectsOf(s *branch, root bool) *objectRule {
	o := &objectRule{max: -1}
	var names []string
	required := union(nil, s.required...)
	var limits []*node
	closed, declared := true, false
	for _, p := range s.parts {
		narrow(&o.min, &o.max, p.check.MinProperties, p.check.MaxProperties)
		for _, x := range p.properties {
			names = union(names, x.name)
		}
		required = union(required, p.check.Required...)
		closed = closed && p.additional == nil
		declared = declared || p.declares
		if p.names != nil {
			limits = append(limits, p.names)
		}
	}
	names = union(names, required...) // undeclared ones, with the rule of undeclared members
	closed = closed && declared && (!m.Open && o.min <= len(names) || m.sealed(s))
	listed, allowed := m.namesLimit(limits)
	names = union(names, listed...)
	for _, name := range names {
		x := property{name: name, required: slices.Contains(required, name)}
		if allAccept(limits, protocol.String(name)) && !slices.Contains(s.forbidden, name) {
			x.rule = m.rule(s.named(name)...)
		}
		if x.required || x.rule != nil {
			o.properties = append(o.properties, x)
		}
	}
	o.required = len(required)
	if root {
		for _, x := range m.Extra {
			names = append(names, x.Name)
			o.properties = append(o.properties, property{x.Name, &rule{external: x.Rule, built: true}, true})
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
	if listed == nil {
		o.undeclared = m.undeclaredOf(s, slices.Concat(names, s.forbidden), allowed, closed)
	}
	return o
}

// union appends names that are not in the list.
func union(list []string, names ...string) []string {
	for _, name := range names {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// sealed reports whether unevaluatedProperties forbids undeclared members in any case.
func (m *compiler) sealed(s *branch) bool {
	return slices.ContainsFunc(s.parts, func(p *node) bool { return p.unevaluated }) &&
		!slices.ContainsFunc(s.parts, func(p *node) bool {
			return p.evaluates || p.choices != nil
		})
}

func (s *branch) named(name string) []*node {
	return s.member(func(x namedSchema) bool { return x.name == name }, func(x namedSchema) bool {
		re, err := pattern.Compile(x.name)
		return err == nil && re.MatchString(name)
	})
}

// member returns the schemas of a member. has selects its properties, and matches its patternProperties.
func (s *branch) member(has, matches func(namedSchema) bool) (set []*node) {
	for _, p := range s.parts {
		known := false
		add := func(list []namedSchema, holds func(namedSchema) bool) {
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

// namesLimit returns the names that propertyNames allows: listed, or if that is nil, a language.
func (m *compiler) namesLimit(limits []*node) (listed []string, allowed pattern.Language) {
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

// undeclaredOf returns the undeclared members, one entry for each set of patterns that a name may match.
func (m *compiler) undeclaredOf(s *branch, names []string, allowed pattern.Language, closed bool) (list []undeclared) {
	var patterns []string
	for _, p := range s.parts {
		for _, x := range p.patterns {
			patterns = union(patterns, x.name)
		}
	}
	allowed.Except = names
	if len(patterns) > maxNamePattern { // widened
		return []undeclared{{allowed, m.rule()}}
	}
	for chosen := range 1 << len(patterns) {
		if closed && chosen == 0 {
			continue
		}
		l := allowed
		l.Match, l.Avoid = slices.Clip(l.Match), slices.Clip(l.Avoid)
		has := func(x namedSchema) bool { return chosen>>slices.Index(patterns, x.name)&1 == 1 }
		for _, expr := range patterns {
			if has(namedSchema{name: expr}) {
				l.Match = append(l.Match, expr)
			} else {
				l.Avoid = append(l.Avoid, expr)
			}
		}
		if r := m.rule(s.member(func(namedSchema) bool { return false }, has)...); r != nil && m.hasString(l) {
			list = append(list, undeclared{l, r})
		}
	}
	return list
}
