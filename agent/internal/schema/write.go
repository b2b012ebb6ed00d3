package schema

import (
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/pattern"
	"agentd/protocol"
)

// Add adds rules for the document's values and returns the name of their root. The error names the
// location of a schema that admits no value. The caller bounds the size ([gbnf.Grammar.Try]).
func (d *Document) Add(g *gbnf.Grammar, o Options) (string, error) {
	if err := d.Usable(); err != nil {
		return "", err
	}
	m := d.compiler(o)
	root := m.rule(d.root)
	if root != nil && (o.Object || len(o.Extra) > 0) { // as a part of itself it lacks the extra members
		root = &rule{set: root.set, any: root.any, root: true}
		if o.Object {
			root.except = allTypes &^ objectType
		}
		m.queue = []*rule{root}
		clear(m.rules)
	}
	w, err := m.writer(g, root, d.Root)
	if err != nil {
		return "", err
	}
	name := w.rule(root)
	w.chargeStates()
	return name, nil
}

// writer builds a rule and those that it needs. The error says that the rule admits no value.
func (m *compiler) writer(g *gbnf.Grammar, r *rule, where string) (*writer, error) {
	granted := min(maxToolStates, g.States)
	m.states = granted
	m.finish()
	if !r.satisfiable() {
		return nil, fmt.Errorf("no value fits %s", m.reason(r, where, nil))
	}
	return &writer{Grammar: g, compiler: m, granted: granted}, nil
}

// reason returns the location of the innermost schema that admits no value.
func (m *compiler) reason(r *rule, where string, path []*rule) string {
	switch {
	case slices.Contains(path, r) && r != nil:
		return where + ", which contains itself endlessly"
	case r == nil || len(r.objects) != 1:
		return where
	}
	path = append(path, r)
	for _, s := range r.objects[0].properties {
		if s.required && !s.rule.satisfiable() {
			return m.reason(s.rule, where+"."+s.name, path)
		}
	}
	return where
}

// writer writes rules to a grammar.
type writer struct {
	*gbnf.Grammar
	*compiler
	granted int // states of automata that the compiler was given
}

func (w *writer) chargeStates() { w.States -= w.granted - w.states }

// rule returns the name of a rule in the grammar, and adds it at the first call.
func (w *writer) rule(r *rule) string {
	switch {
	case r.external != "":
		return r.external
	case r.any:
		return w.JSON(gbnf.AnyValue)
	case r.writing && r.name == "": // recursive
		r.name = w.Fresh()
	}
	if r.name != "" {
		return r.name
	}
	r.writing = true
	if body := w.body(r); r.name != "" {
		w.Add(r.name, body)
	} else {
		r.name = w.Rule(body)
	}
	return r.name
}

func (w *writer) body(r *rule) string {
	var list []string
	seen := map[string]bool{"": true}
	add := func(body string) {
		if !seen[body] {
			seen[body] = true
			list = append(list, body)
		}
	}
	for _, v := range r.values {
		add(constant(w.Seq(), v).String())
	}
	for _, l := range r.texts {
		add(w.language(l))
	}
	for _, n := range r.numbers {
		body, free := n.body()
		if free {
			body = w.JSON(map[bool]string{true: gbnf.AnyInteger, false: gbnf.AnyNumber}[n.integer])
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
		add(w.array(e))
	}
	for _, o := range r.objects {
		add(w.object(o))
	}
	return strings.Join(list, " | ")
}

// constant appends a value in the grammar's spacing.
func constant(s *gbnf.Seq, v protocol.Raw) *gbnf.Seq {
	i := 0
	switch v.Kind() {
	case '{':
		s.Open("{")
		for name, value := range protocol.Members(v) {
			if i++; i > 1 {
				s.Comma()
			}
			s.Literal(string(protocol.String(name))).Colon()
			constant(s, value)
		}
		s.Close("}")
	case '[':
		s.Open("[")
		for e := range protocol.Elements(v) {
			if i++; i > 1 {
				s.Comma()
			}
			constant(s, e)
		}
		s.Close("]")
	case '"':
		text, _ := protocol.Text(v)
		s.Literal(string(protocol.String(text)))
	default:
		s.Literal(string(v))
	}
	return s
}

// language returns an expression of the strings of a language as JSON, "" if there are none.
func (w *writer) language(l pattern.Language) string {
	if len(l.Match)+len(l.Avoid)+len(l.Except) == 0 && !l.Any() {
		if l.Max >= 0 && l.Min > l.Max {
			return ""
		}
		return `"\"" ` + w.repeated(w.JSON(gbnf.AnyChar), l.Min, l.Max) + ` "\""`
	}
	return w.Once(fmt.Sprintf("strings %#v", l), func() string {
		quote := `"\""`
		return w.strings(l, spelling{begin: quote + " ", end: quote, class: pattern.Class,
			rest: w.JSON(gbnf.AnyChar) + "* " + quote, any: func() string { return w.JSON(gbnf.AnyString) }, wider: w.language})
	})
}

// spelling is a notation of strings, in JSON or between tags.
type spelling struct {
	begin, end string
	avoid      []string                        // expressions that match in no string
	class      func(ranges []rune) string      // the expression of one character
	rest       string                          // the rule of any rest of a string; "": there is none
	any        func() string                   // the expression of all strings
	wider      func(l pattern.Language) string // the expression of a wider language
}

// strings returns an expression of the strings of a language, "" if there are none. If the automaton has too many
// states, it drops the lengths, then patterns.
func (w *writer) strings(l pattern.Language, sp spelling) string {
	if l.Any() {
		return sp.any()
	}
	spelled := l
	spelled.Avoid = slices.Concat(l.Avoid, sp.avoid)
	a, err := w.compiler.automaton(spelled)
	switch {
	case err == nil && len(a) == 0:
		return ""
	case err == nil:
		return sp.begin + w.automaton(a, sp)
	case l.Min > 0 || l.Max >= 0:
		l.Min, l.Max = 0, -1
	case len(l.Except) > 0 && len(l.Match)+len(l.Avoid) > 0:
		l.Match, l.Avoid = nil, nil
	case len(l.Match) > 1 || len(l.Match) == 1 && len(l.Avoid) > 0:
		l.Match, l.Avoid = l.Match[:1], nil
	default:
		l = pattern.Language{Max: -1}
	}
	return sp.wider(l)
}

const maxUnnamed = 60 // the longest class of characters that is written in place. Longer ones get a rule.

// automaton writes the rules of an automaton and returns the name of the first.
func (w *writer) automaton(a pattern.Automaton, sp spelling) string {
	entered := make([]int, len(a)) // by how many edges
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
		if a[i].All && sp.rest != "" {
			return sp.rest
		}
		var list []string
		if a[i].Accept {
			list = append(list, sp.end)
		}
		for _, e := range a[i].Edges {
			if class := sp.class(e.Ranges); class != "" {
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

// repeated returns a repetition of a rule. Counts beyond maxRepetition and maxRepeated are widened.
func (w *writer) repeated(name string, least, most int) string {
	least = min(least, maxRepetition)
	if most > maxRepetition || most >= 0 && most-least > maxRepeated-w.Repeated {
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
	return w.Once(body, func() string {
		w.Repeated += most - least
		return w.Rule(body)
	})
}
