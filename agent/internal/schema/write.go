package schema

import (
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/pattern"
	"agentd/protocol"
)

// Add adds rules for the values that the document admits to a grammar and returns the name
// of their root. Without such values it returns an error that names the place.
func (d *Document) Add(g *gbnf.Grammar, o Options) (string, error) {
	if err := d.Usable(); err != nil {
		return "", err
	}
	m := d.maker(o)
	whole := m.rule(d.root)
	if whole != nil && (o.Object || len(o.Extra) > 0) { // it may be a part of itself, without the extra members
		whole = &rule{set: whole.set, any: whole.any}
		m.whole = whole
		m.queue = []*rule{whole}
		m.rules = map[string]*rule{}
	}
	w, err := m.writer(g, whole, "parameters")
	if err != nil {
		return "", err
	}
	defer w.done()
	return w.rule(whole), g.TooLarge()
}

// writer makes all rules that the one needs, and fails where it admits nothing.
func (m *maker) writer(g *gbnf.Grammar, r *rule, where string) (*writer, error) {
	m.finish()
	if !r.live() {
		return nil, fmt.Errorf("no value fits %s", m.reason(r, where, nil))
	}
	return &writer{Grammar: g, left: maxRepeated - g.Repeated, maker: m}, nil
}

func (w *writer) done() { w.Repeated = maxRepeated - w.left }

// reason returns the innermost place that admits no value.
func (m *maker) reason(r *rule, where string, path []*rule) string {
	if r == nil || slices.Contains(path, r) || len(r.objects) != 1 {
		if r != nil && len(path) > 0 && slices.Contains(path, r) {
			return where + ", which has itself as a part without end"
		}
		return where
	}
	path = append(path, r)
	for _, s := range r.objects[0].slots {
		if s.required && !s.rule.live() {
			return m.reason(s.rule, where+"."+s.name, path)
		}
	}
	return where
}

// writer writes rules to a grammar.
type writer struct {
	*gbnf.Grammar
	*maker
	left int // repetitions
}

const (
	unwritten = iota
	writing
	written
)

// rule is the name of a rule in the grammar.
func (w *writer) rule(r *rule) string {
	switch {
	case r.given != "":
		return r.given
	case r.any:
		return w.JSON(gbnf.AnyValue)
	case r.state == written || r.name != "":
		return r.name
	case r.state == writing: // it is part of itself
		r.name = w.Fresh()
		return r.name
	}
	r.state = writing
	body := w.body(r, nil)
	switch {
	case r.name != "":
		w.Add(r.name, body)
	case isName(body):
		r.name = body
	default:
		r.name = w.Rule(body)
	}
	r.state = written
	return r.name
}

// isName reports whether a body is one reference.
func isName(body string) bool {
	return body != "" && strings.Trim(body, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}

// body returns the alternatives of a rule, followed by more.
func (w *writer) body(r *rule, more []string) string {
	var list []string
	add := func(body string) {
		if body != "" && !slices.Contains(list, body) {
			list = append(list, body)
		}
	}
	for _, v := range r.values {
		add(w.constant(v))
	}
	for i := range r.texts {
		add(w.language(r.texts[i].language()))
	}
	for i := range r.numbers {
		body, free := r.numbers[i].body()
		if free {
			body = w.JSON(map[bool]string{true: gbnf.AnyInteger, false: gbnf.AnyNumber}[r.numbers[i].integer])
		}
		add(body)
	}
	if r.boolean {
		add(`"true"`)
		add(`"false"`)
	}
	if r.null {
		add(`"null"`)
	}
	for _, e := range r.lists {
		add(w.elements(e))
	}
	for _, o := range r.objects {
		add(w.members(o))
	}
	for _, body := range more {
		add(body)
	}
	return strings.Join(list, " | ")
}

// constant is one value, in the grammar's spacing.
func (w *writer) constant(v protocol.Raw) string {
	s := w.Seq()
	w.appendConstant(s, v)
	return s.String()
}

func (w *writer) appendConstant(s *gbnf.Seq, v protocol.Raw) {
	i := 0
	switch v.Kind() {
	case '{':
		s.Open("{")
		for name, value := range protocol.Members(v) {
			if i++; i > 1 {
				s.Comma()
			}
			s.Literal(string(protocol.String(name))).Colon()
			w.appendConstant(s, value)
		}
		s.Close("}")
	case '[':
		s.Open("[")
		for e := range protocol.Elements(v) {
			if i++; i > 1 {
				s.Comma()
			}
			w.appendConstant(s, e)
		}
		s.Close("]")
	case '"':
		text, _ := protocol.Text(v)
		s.Literal(string(protocol.String(text)))
	default:
		s.Literal(string(v))
	}
}

// language is the strings of a language in JSON, "" where there are none. One that takes too
// many states is widened: by its lengths, then to its first pattern, then to any string.
func (w *writer) language(l pattern.Language) string {
	if len(l.Match)+len(l.Avoid)+len(l.Except) == 0 {
		if l.Min == 0 && l.Max < 0 {
			return w.JSON(gbnf.AnyString)
		}
		return `"\"" ` + w.repeated(w.JSON(gbnf.AnyChar), l.Min, l.Max) + ` "\""`
	}
	return w.Once(fmt.Sprintf("strings %#v", l), func() string { return w.matching(l) })
}

// matching is language for more than limits of length.
func (w *writer) matching(l pattern.Language) string {
	a, err := l.Automaton(maxStates)
	switch {
	case err == nil && len(a) == 0:
		return ""
	case err == nil:
		return `"\"" ` + w.automaton(a, `"\""`, w.JSON(gbnf.AnyChar)+`* "\""`, pattern.Class)
	case l.Min > 0 || l.Max >= 0:
		l.Min, l.Max = 0, -1
	case len(l.Except) > 0 && len(l.Match)+len(l.Avoid) > 0:
		l.Match, l.Avoid = nil, nil
	case len(l.Match) > 1 || len(l.Match) == 1 && len(l.Avoid) > 0:
		l.Match, l.Avoid = l.Match[:1], nil
	default:
		return w.JSON(gbnf.AnyString)
	}
	return w.language(l)
}

// maxUnnamed is the longest class of characters that is written where it is used. Longer ones
// get a rule.
const maxUnnamed = 60

// automaton writes the rules of an automaton and returns the name of the first. end follows
// every string. all matches the rest of a string that may go on in any way; "" has it written
// out. spell writes one character of some ranges.
func (w *writer) automaton(a pattern.Automaton, end, all string, spell func(ranges []rune) string) string {
	entered := make([]int, len(a)) // from how many places
	entered[0] = 2
	for _, s := range a {
		for _, e := range s.Edges {
			entered[e.To]++
		}
	}
	names := make([]string, len(a))
	var body func(i int) string
	state := func(i int) string {
		if entered[i] == 1 && len(a[i].Edges) == 1 && !a[i].Accept { // in a chain
			return body(i)
		}
		if names[i] == "" {
			names[i] = w.Fresh()
			w.Add(names[i], body(i))
		}
		return names[i]
	}
	body = func(i int) string {
		if a[i].All && all != "" {
			return all
		}
		var list []string
		if a[i].Accept {
			list = append(list, end)
		}
		for _, e := range a[i].Edges {
			if class := spell(e.Ranges); class != "" {
				if len(class) > maxUnnamed {
					class = w.Rule(class)
				}
				list = append(list, class+" "+state(e.To))
			}
		}
		return strings.Join(list, " | ")
	}
	return state(0)
}

// repeated is a rule some times in a row. Counts beyond what a grammar can hold are widened.
func (w *writer) repeated(name string, least, most int) string {
	if least > maxRepetition {
		least = maxRepetition
	}
	if most > maxRepetition || most >= 0 && most-least > w.left {
		most = -1
	}
	switch {
	case most == 0:
		return ""
	case least == 0 && most < 0:
		return name + "*"
	case most < 0:
		return fmt.Sprintf("%s{%d,}", name, least)
	case least == most:
		return fmt.Sprintf("%s{%d}", name, least)
	case least == 0 && most == 1:
		return name + "?"
	}
	body := fmt.Sprintf("%s{%d,%d}", name, least, most)
	fresh := true
	if most-least > 8 {
		body, fresh = w.Shared(body)
	}
	if fresh {
		w.left -= most - least
	}
	return body
}
