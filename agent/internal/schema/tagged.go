package schema

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/pattern"
	"agentd/protocol"
)

var errNothing = errors.New("no value fits it")

// Kind is how the text of a member is written where members stand between tags.
type Kind int

// Kinds of members.
const (
	Any  Kind = iota // JSON if it is that, else a string
	Text             // a string, as it stands
	JSON
)

// Member is what the document says of one member of its objects.
type Member struct {
	Kind Kind
	// Texts are the strings to which it is limited; nil if it isn't, or not to strings alone.
	Texts []string

	set []*node
}

// Member finds out about a member by its name.
func (d *Document) Member(name string) Member {
	d.membersOnce.Do(func() {
		d.members = map[string]Member{}
		m := d.maker(Options{})
		shapes := m.shapes([]*node{d.root})
		if len(shapes) == 0 {
			return
		}
		s := shapes[0]
		if len(shapes) > 1 { // what holds in any case
			s.parts = s.always
		}
		var names []string
		for _, p := range s.parts {
			for _, x := range p.properties {
				names = append(names, x.name)
			}
			names = append(names, p.required...)
		}
		for _, name := range names {
			if _, known := d.members[name]; !known {
				d.members[name] = m.member(namedParts(&s, name))
			}
		}
	})
	return d.members[name]
}

func (m *maker) member(set []*node) Member {
	member := Member{set: set}
	r := m.rule(set...)
	if r == nil {
		member.Kind = JSON
		return member
	}
	if !r.built {
		m.build(r, false)
	}
	if r.any {
		return member
	}
	strs, rest := len(r.texts), len(r.numbers)+len(r.lists)+len(r.objects)
	var texts []string
	for _, v := range r.values {
		if s, ok := protocol.Text(v); ok {
			texts = append(texts, s)
			strs++
		} else {
			rest++
		}
	}
	switch {
	case strs == 0:
		member.Kind = JSON
	case rest == 0 && !r.null && !r.boolean:
		member.Kind = Text
		if len(r.texts) == 0 {
			member.Texts = texts
		}
	}
	return member
}

// AddMember adds the rules of a member between tags, and of the text that ends it, and returns
// an expression of both.
func (d *Document) AddMember(g *gbnf.Grammar, member Member, end string, o Options) (string, error) {
	m := d.maker(o)
	r := m.rule(member.set...)
	if r == nil {
		return "", errNothing
	}
	if member.Kind != Text {
		if _, err := m.add(g, r); err != nil {
			return "", errNothing
		}
		w := writer{Grammar: g, maker: m, left: maxRepeated - g.Repeated}
		var python []string // constants as templates show them
		for _, v := range r.values {
			python = append(python, pythonConstant(v))
		}
		if r.boolean {
			python = append(python, `"True"`, `"False"`)
		}
		if python = slices.DeleteFunc(python, func(s string) bool { return s == "" }); len(python) == 0 {
			return w.rule(r) + " " + gbnf.Literal(end), nil
		}
		return gbnf.Alternatives(append([]string{w.rule(r)}, python...)) + " " + gbnf.Literal(end), nil
	}
	m.finish()
	if !r.live() {
		return "", errNothing
	}
	w := writer{Grammar: g, maker: m, left: maxRepeated - g.Repeated}
	var list []string
	for _, v := range r.values {
		s, _ := protocol.Text(v)
		list = append(list, gbnf.Literal(s+end))
	}
	for i := range r.texts {
		list = append(list, w.tagged(r.texts[i], end))
	}
	list = slices.DeleteFunc(slices.Compact(list), func(s string) bool { return s == "" })
	if len(list) == 0 {
		return "", errNothing
	}
	return gbnf.Alternatives(list), g.TooLarge()
}

func pythonConstant(v protocol.Raw) string {
	switch v.Kind() {
	case 't':
		return `"True"`
	case 'f':
		return `"False"`
	}
	return ""
}

// tagged is strings as they stand, and what ends them.
func (w *writer) tagged(t texts, end string) string {
	mark := strings.TrimLeft(end, "\n")
	l := t.language()
	for range 2 {
		if t.free() {
			break
		}
		l.Avoid = []string{regexp.QuoteMeta(mark[:strings.IndexByte(mark, '>')+1])}
		a, err := l.Automaton(maxStates)
		if err == nil && len(a) == 0 {
			return ""
		}
		if err == nil {
			return w.automaton(a, gbnf.Literal(end), "", pattern.Plain)
		}
		if l.Min, l.Max = 0, -1; len(l.Match) == 0 {
			break // widened
		}
	}
	name := w.Fresh()
	first, rest, _ := strings.Cut(end, ">")
	w.AddText(name, gbnf.Text{Forbidden: []string{strings.TrimLeft(first, "\n") + ">"}, Until: first + ">"})
	return name + " " + gbnf.Literal(rest)
}
