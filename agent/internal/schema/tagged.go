package schema

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/pattern"
	"agentd/protocol"
)

// Kind is the notation of a member between tags, as of Qwen3-Coder's parameters.
type Kind int

// Kinds of members.
const (
	Any  Kind = iota // JSON if the text is JSON that the schema admits, else a string
	Text             // a plain string
	JSON             // JSON
)

// Member describes one member of a document's objects.
type Member struct {
	Kind  Kind
	Texts []string // the strings that an enum or const allows; nil without either

	name string
	set  []*node
	bare bool // strings may stand without quotes: there is nothing else but null
}

// Fits reports whether a value passes the check of the member's schema.
func (m Member) Fits(v protocol.Raw) bool { return allAccept(m.set, v) }

// Member returns the description of the member of that name. For an unknown name it is the zero value.
func (d *Document) Member(name string) Member {
	d.membersOnce.Do(func() {
		d.members = map[string]Member{}
		if d.Usable() != nil {
			return
		}
		m := d.compiler(Options{})
		branches := m.branches([]*node{d.root})
		if len(branches) == 0 {
			return
		}
		s := branches[0]
		if len(branches) > 1 { // what holds in every branch
			s.parts = s.always
		}
		for _, p := range s.parts {
			var names []string
			for _, x := range p.properties {
				names = append(names, x.name)
			}
			for _, name := range slices.Concat(names, p.check.Required) {
				if _, known := d.members[name]; !known {
					d.members[name] = m.member(name, s.named(name))
				}
			}
		}
	})
	return d.members[name]
}

func (m *compiler) member(name string, set []*node) Member {
	member := Member{name: name, set: set}
	r := m.rule(set...)
	if r == nil {
		member.Kind = JSON
		return member
	}
	if !r.built {
		m.build(r)
	}
	texts := r.strings()
	var constants typeSet
	for _, v := range r.values {
		constants |= typeOf(v)
	}
	others := r.boolean || len(r.numbers)+len(r.lists)+len(r.objects) > 0 || constants&^(stringType|nullType) != 0
	member.bare = len(texts)+len(r.texts) > 0 && !others
	if len(r.texts) == 0 {
		member.Texts = texts
	}
	switch {
	case len(texts)+len(r.texts) == 0 && !r.any:
		member.Kind = JSON
	case member.bare && !r.null && constants&nullType == 0:
		member.Kind = Text
	}
	return member
}

// AddMember adds the rules of a member between tags and returns an expression of its text followed by
// end. The error says that the schema admits no value.
func (d *Document) AddMember(g *gbnf.Grammar, member Member, end string, o Options) (string, error) {
	m := d.compiler(o)
	r := m.rule(member.set...)
	w, err := m.writer(g, r, d.Root+"."+member.name)
	if err != nil {
		return "", err
	}
	defer w.chargeStates()
	var list []string
	if member.bare {
		for _, s := range r.strings() {
			list = append(list, gbnf.Literal(s+end))
		}
		for _, l := range r.texts {
			if body := w.tagged(l, end); body != "" && !slices.Contains(list, body) {
				list = append(list, body)
			}
		}
	}
	if member.Kind == Text {
		if len(list) == 0 {
			return "", fmt.Errorf("no value fits %s.%s", d.Root, member.name)
		}
		return gbnf.Alternatives(list), nil
	}
	values := []string{w.rule(r)}
	for i, word := range []string{"True", "False", "None"} { // as templates write them
		is := func(v protocol.Raw) bool { return string(v) == []string{"true", "false", "null"}[i] }
		if r.any || r.boolean && i < 2 || r.null && i == 2 || slices.ContainsFunc(r.values, is) {
			values = append(values, gbnf.Literal(word))
		}
	}
	return gbnf.Alternatives(append(list, gbnf.Alternatives(values)+" "+gbnf.Literal(end))), nil
}

// tagged returns an expression of the strings of a language without quotes, followed by end.
func (w *writer) tagged(l pattern.Language, end string) string {
	mark := strings.TrimLeft(end, "\n")
	mark = mark[:strings.IndexByte(mark, '>')+1]
	wider := func(l pattern.Language) string { return w.tagged(l, end) }
	free := func() string {
		const name = "tagged" // the same for all
		first, rest, _ := strings.Cut(end, ">")
		w.AddText(name, gbnf.Text{Forbidden: []string{mark}, Until: first + ">"})
		return name + " " + gbnf.Literal(rest)
	}
	return w.Once(fmt.Sprintf("tagged %#v", l), func() string {
		return w.strings(l, spelling{end: gbnf.Literal(end), avoid: []string{regexp.QuoteMeta(mark)}, class: pattern.Plain, any: free, wider: wider})
	})
}
