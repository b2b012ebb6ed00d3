package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"agentd/agent/internal/pattern"
	"agentd/protocol"
)

// rule is the intersection of a set of schemas.
type rule struct {
	set      []*node
	any      bool    // admits every value
	root     bool    // the document's root: its objects get Options.Extra
	except   typeSet // excluded types
	external string  // the name of a rule that the caller added to the grammar
	built    bool
	finite   bool // known to admit a finite value

	values  []protocol.Raw
	null    bool
	boolean bool
	numbers []numbers
	texts   []pattern.Language
	lists   []*arrayRule
	objects []*objectRule

	name    string // in the grammar
	writing bool
}

// strings returns the constants that are strings.
func (r *rule) strings() []string {
	list := []string{}
	for _, v := range r.values {
		if s, ok := protocol.Text(v); ok {
			list = append(list, s)
		}
	}
	return list
}

type arrayRule struct {
	prefix   []*rule
	items    *rule // elements after the prefix; nil if it may have no more
	min, max int   // a max of -1 is unbounded
	contains *rule // matches at least one element; nil without contains
}

type objectRule struct {
	properties []property
	undeclared []undeclared
	required   int // number of required properties
	min, max   int // a max of -1 is unbounded; min is 0 if the required properties reach it
}

// property is a declared member.
type property struct {
	name     string
	rule     *rule
	required bool
}

// undeclared admits members whose names are in a language.
type undeclared struct {
	names pattern.Language
	rule  *rule
}

// Options of a grammar.
type Options struct {
	Open   bool    // admit undeclared members and elements, unless the schema forbids them
	Object bool    // admit objects only
	Extra  []Extra // members of every object of the root, after the declared ones
}

// Extra is a member that is not in the schema, with the name of its rule in the grammar.
type Extra struct{ Name, Rule string }

// compiler makes rules of a document.
type compiler struct {
	*Document
	Options
	rules    map[string]*rule
	queue    []*rule
	parts    int // schemas combined so far
	states   int // states of automata that may still be computed
	automata map[string]pattern.Automaton
}

func (d *Document) compiler(o Options) *compiler {
	return &compiler{Document: d, Options: o, rules: map[string]*rule{}, automata: map[string]pattern.Automaton{}}
}

// rule returns the rule of a set of schemas, nil if they contradict each other. finish builds it.
func (m *compiler) rule(set ...*node) *rule {
	set, possible := simplified(set)
	if !possible {
		return nil
	}
	key := keyOf(set)
	if r := m.rules[key]; r != nil {
		return r
	}
	if len(m.rules) >= maxRules {
		return &rule{any: true} // widened
	}
	r := &rule{set: set, any: len(set) == 0}
	m.rules[key] = r
	m.queue = append(m.queue, r)
	return r
}

// finish builds all rules in the queue, and sets finite.
func (m *compiler) finish() {
	for done := 0; done < len(m.queue); { // building a rule queues its parts
		r := m.queue[done]
		done++
		if !r.built {
			m.build(r)
		}
	}
	for again := true; again; {
		again = false
		for i := len(m.queue) - 1; i >= 0; i-- {
			if r := m.queue[i]; !r.finite && m.admits(r) {
				r.finite, again = true, true
			}
		}
	}
}

// build adds the values of each branch to r.
func (m *compiler) build(r *rule) {
	r.built = true
	if r.external != "" || r.any && !r.root {
		return
	}
	r.any = false
	for _, b := range m.branches(r.set) {
		s := &b
		s.types &^= r.except
		if values, limited := constants(r.set, s); limited && (!r.root || len(m.Extra) == 0) {
			r.values = append(r.values, values...)
			continue
		}
		m.addBranch(r, s)
	}
	if len(r.values) > maxValues { // widened
		s := &branch{}
		for _, v := range r.values {
			s.types |= typeOf(v)
		}
		r.values = nil
		m.addBranch(r, s)
	}
}

func (m *compiler) addBranch(r *rule, s *branch) {
	r.null = r.null || s.types&nullType != 0
	r.boolean = r.boolean || s.types&booleanType != 0
	if s.types&numberTypes != 0 {
		r.numbers = append(r.numbers, numbersOf(s))
	}
	if s.types&stringType != 0 {
		r.texts = append(r.texts, textsOf(s))
	}
	if s.types&arrayType != 0 {
		r.lists = append(r.lists, m.arraysOf(s))
	}
	if s.types&objectType != 0 {
		r.objects = append(r.objects, m.objectsOf(s, r.root))
	}
}

func textsOf(s *branch) pattern.Language {
	l := pattern.Language{Max: -1}
	for _, p := range s.parts {
		narrow(&l.Min, &l.Max, p.check.MinLength, p.check.MaxLength)
		if re, ok := p.check.Pattern.(*pattern.Pattern); ok {
			l.Match, l.Avoid = union(l.Match, re.Match...), union(l.Avoid, re.Avoid...)
		}
		if f := p.check.Format; f != nil {
			l.Match = union(l.Match, formats[f.Name])
		}
	}
	return l
}

func (m *compiler) arraysOf(s *branch) *arrayRule {
	e := &arrayRule{max: -1}
	length := 0
	for _, p := range s.parts {
		narrow(&e.min, &e.max, p.check.MinItems, p.check.MaxItems)
		length = max(length, len(p.prefix))
	}
	// at returns the schemas of the i-th element.
	at := func(i int) (set []*node) {
		for _, p := range s.parts {
			switch {
			case i < len(p.prefix):
				set = append(set, p.prefix[i])
			case p.items != nil:
				set = append(set, p.items)
			}
		}
		return set
	}
	for i := range length {
		e.prefix = append(e.prefix, m.rule(at(i)...))
	}
	rest := at(length)
	if len(rest) > 0 || m.Open || length == 0 || e.min > length {
		e.items = m.rule(rest...)
	}
	// contains becomes a rule without tuples and length limits. Else the check decides.
	if length == 0 && e.min <= 1 && e.max < 0 {
		for _, p := range s.parts {
			once := p.check.MinContains == nil || *p.check.MinContains == 1
			if p.contains != nil && once && e.contains == nil {
				e.contains = m.rule(append(slices.Clip(rest), p.contains)...)
				if e.contains == nil {
					e.min, e.max = 1, 0 // contradictory: no element matches
				}
			}
		}
	}
	return e
}

// admits reports whether a rule admits a value, by what is known of its parts so far.
func (m *compiler) admits(r *rule) bool {
	return r.any || r.external != "" || r.null || r.boolean || len(r.values) > 0 ||
		slices.ContainsFunc(r.numbers, numbers.admits) || slices.ContainsFunc(r.texts, m.hasString) ||
		slices.ContainsFunc(r.lists, (*arrayRule).admits) || slices.ContainsFunc(r.objects, (*objectRule).admits)
}

// hasString reports whether a language is not empty.
func (m *compiler) hasString(l pattern.Language) bool {
	free := l.Min == 0 && l.Max < 0
	switch {
	case l.Max >= 0 && l.Min > l.Max:
		return false
	case len(l.Match)+len(l.Avoid) == 0, free && len(l.Match) == 1 && slices.Contains(slices.Collect(maps.Values(formats)), l.Match[0]):
		return true
	}
	a, err := m.automaton(l)
	return err != nil || len(a) > 0
}

var errStates = errors.New("it takes too many states")

// automaton computes the automaton of a language once, with at most maxStates, and maxToolStates
// for all of a document. Combined expressions may use half of these.
func (m *compiler) automaton(l pattern.Language) (pattern.Automaton, error) {
	key := fmt.Sprintf("%#v", l)
	if a, ok := m.automata[key]; ok {
		if a == nil {
			return nil, errStates
		}
		return a, nil
	}
	least := 0
	if len(l.Match) > 1 || len(l.Avoid) > 1 {
		least = maxToolStates / 2
	}
	if m.states <= least {
		return nil, errStates
	}
	a, err := l.Automaton(maxStates)
	if err != nil {
		m.states -= maxStates
		m.automata[key] = nil
		return nil, err
	}
	m.states -= len(a)
	m.automata[key] = append(pattern.Automaton{}, a...) // not nil, also if it has no states
	return a, nil
}

// satisfiable reports whether a rule is known to admit a value.
func (r *rule) satisfiable() bool { return r != nil && (r.finite || r.any || r.external != "") }

func (e *arrayRule) admits() bool {
	if e.max >= 0 && e.min > e.max || e.contains != nil && !e.contains.satisfiable() {
		return false
	}
	for _, r := range e.prefix[:min(e.min, len(e.prefix))] {
		if !r.satisfiable() {
			return false
		}
	}
	return e.min <= len(e.prefix) || e.items.satisfiable()
}

func (o *objectRule) admits() bool {
	declared := 0
	for _, s := range o.properties {
		if s.rule.satisfiable() {
			declared++
		} else if s.required {
			return false
		}
	}
	if o.max >= 0 && (o.min > o.max || o.required > o.max) {
		return false
	}
	return declared >= o.min || slices.ContainsFunc(o.undeclared, func(x undeclared) bool { return x.rule.satisfiable() })
}
