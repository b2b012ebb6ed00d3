package schema

import (
	"fmt"
	"regexp"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/pattern"
	"agentd/protocol"
)

// Kind is how the text of a member is written where members stand between tags.
type Kind int

// Kinds of members.
const (
	Any  Kind = iota // JSON if it is that, else a string
	Text             // a string, as it stands
	JSON
)

// Member describes one member of a document's objects.
type Member struct {
	Kind Kind
	// Texts are the strings to which it is limited; nil if it isn't, or not to strings alone.
	Texts []string

	name string
	set  []*node
}

// Member returns the description of a member by its name.
func (d *Document) Member(name string) Member {
	d.membersOnce.Do(func() {
		d.members = map[string]Member{}
		if d.Usable() != nil {
			return
		}
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
				d.members[name] = m.member(name, namedParts(&s, name))
			}
		}
	})
	return d.members[name]
}

func (m *maker) member(name string, set []*node) Member {
	member := Member{name: name, set: set}
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
// an expression of both. The error says that there are no values.
func (d *Document) AddMember(g *gbnf.Grammar, member Member, end string, o Options) (string, error) {
	m := d.maker(o)
	r := m.rule(member.set...)
	w, err := m.writer(g, r, "parameters."+member.name)
	if err != nil {
		return "", err
	}
	defer w.done()
	var list []string
	if member.Kind == Text {
		for _, v := range r.values {
			s, _ := protocol.Text(v)
			list = append(list, gbnf.Literal(s+end))
		}
		for i := range r.texts {
			if body := w.tagged(r.texts[i], end); body != "" {
				list = append(list, body)
			}
		}
		if len(list) == 0 {
			return "", fmt.Errorf("no value fits parameters.%s", member.name)
		}
		return gbnf.Alternatives(list), g.TooLarge()
	}
	list = append(list, w.rule(r))
	for _, v := range r.values {
		if s := pythonConstant(v); s != "" {
			list = append(list, s)
		}
	}
	if r.boolean {
		list = append(list, `"True"`, `"False"`)
	}
	return gbnf.Alternatives(list) + " " + gbnf.Literal(end), g.TooLarge()
}

// pythonConstant is a boolean as templates show it.
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
	const name = "tagged" // the same for all
	first, rest, _ := strings.Cut(end, ">")
	w.AddText(name, gbnf.Text{Forbidden: []string{strings.TrimLeft(first, "\n") + ">"}, Until: first + ">"})
	return name + " " + gbnf.Literal(rest)
}
