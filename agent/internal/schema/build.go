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
	set    []*node
	any    bool    // every value
	whole  bool    // of the whole document: the extra members are its own
	except typeSet // types that don't count
	given  string  // the name of a rule of others
	built  bool
	finite bool // some finite value is known to be admitted

	values  []protocol.Raw
	null    bool
	boolean bool
	numbers []numbers
	texts   []pattern.Language
	lists   []*elements
	objects []*members

	name    string // in the grammar
	writing bool
}

// strings are the values that are strings.
func (r *rule) strings() []string {
	list := []string{}
	for _, v := range r.values {
		if s, ok := protocol.Text(v); ok {
			list = append(list, s)
		}
	}
	return list
}

// elements are lists.
type elements struct {
	prefix   []*rule
	items    *rule // of what follows, nil for nothing
	min, max int   // max is -1 for no bound
	hit      *rule // what one element at least is, nil for no such rule
}

// members are objects.
type members struct {
	slots    []slot
	others   []others
	required int // slots that are
	min, max int // min is 0 where those that are required suffice, max -1 for no bound
}

// slot is a declared member in its place.
type slot struct {
	name     string
	rule     *rule
	required bool
}

// others are members of any other names of a kind.
type others struct {
	names pattern.Language
	rule  *rule
}

// Options of a grammar.
type Options struct {
	// Open offers members and elements that are not declared, unless the schema forbids
	// them.
	Open bool
	// Object admits objects only.
	Object bool
	// Extra are members that every object of the whole has besides its own, in places behind
	// those that are required; each has a rule of the grammar.
	Extra []Extra
}

// Extra is a member that is not of the schema.
type Extra struct{ Name, Rule string }

// maker makes rules of a document.
type maker struct {
	*Document
	Options
	rules    map[string]*rule
	queue    []*rule
	parts    int // schemas that were put together
	states   int // of automata, that may still be computed
	automata map[string]pattern.Automaton
}

func (d *Document) maker(o Options) *maker {
	return &maker{Document: d, Options: o, rules: map[string]*rule{}, automata: map[string]pattern.Automaton{}}
}

// rule returns the rule of a set of schemas, nil if they admit nothing. finish builds it.
func (m *maker) rule(set ...*node) *rule {
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

// finish builds all rules in the queue and marks those that admit a value.
func (m *maker) finish() {
	for done := 0; done < len(m.queue); { // a rule that is built adds others
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

// build builds one rule.
func (m *maker) build(r *rule) {
	r.built = true
	if r.given != "" || r.any && !r.whole {
		return
	}
	r.any = false
	for _, shape := range m.shapes(r.set) {
		s := &shape
		s.types &^= r.except
		if values, limited := constants(r.set, s); limited && (!r.whole || len(m.Extra) == 0) {
			r.values = append(r.values, values...)
			continue
		}
		m.addShape(r, s)
	}
	if len(r.values) > maxValues { // widened
		s := &shape{}
		for _, v := range r.values {
			s.types |= typeOf(v)
		}
		r.values = nil
		m.addShape(r, s)
	}
}

// addShape adds the values of a shape that is not limited to constants.
func (m *maker) addShape(r *rule, s *shape) {
	r.null = r.null || s.types&nullType != 0
	r.boolean = r.boolean || s.types&booleanType != 0
	if s.types&numberTypes != 0 {
		r.numbers = append(r.numbers, numbersOf(s))
	}
	if s.types&stringType != 0 {
		r.texts = append(r.texts, textsOf(s))
	}
	if s.types&arrayType != 0 {
		r.lists = append(r.lists, m.elementsOf(s))
	}
	if s.types&objectType != 0 {
		r.objects = append(r.objects, m.membersOf(s, r.whole))
	}
}

// textsOf is the strings of a shape.
func textsOf(s *shape) pattern.Language {
	l := pattern.Language{Max: -1}
	for _, p := range s.parts {
		within(&l.Min, &l.Max, p.check.MinLength, p.check.MaxLength)
		if re := p.check.Pattern; re != nil {
			l.Match = union(l.Match, re.String())
		}
		if f := p.check.Format; f != nil {
			l.Match = union(l.Match, formats[f.Name])
		}
	}
	return l
}

// elementsOf is the lists of a shape.
func (m *maker) elementsOf(s *shape) *elements {
	e := &elements{max: -1}
	length := 0
	for _, p := range s.parts {
		within(&e.min, &e.max, p.check.MinItems, p.check.MaxItems)
		length = max(length, len(p.prefix))
	}
	// at are the schemas of an element.
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
	// One element that something is true of; else, and where lengths count too, that is
	// checked.
	if length == 0 && e.min <= 1 && e.max < 0 {
		for _, p := range s.parts {
			once := p.check.MinContains == nil || *p.check.MinContains == 1
			if p.contains != nil && once && e.hit == nil {
				e.hit = m.rule(append(slices.Clip(rest), p.contains)...)
				if e.hit == nil {
					e.min, e.max = 1, 0 // nothing can be it
				}
			}
		}
	}
	return e
}

// admits reports whether a rule admits some value whose parts are known to admit one.
func (m *maker) admits(r *rule) bool {
	switch {
	case r.any, r.given != "", r.null, r.boolean, len(r.values) > 0:
		return true
	}
	return slices.ContainsFunc(r.numbers, numbers.admits) || slices.ContainsFunc(r.texts, m.possible) || slices.ContainsFunc(r.lists, (*elements).admits) || slices.ContainsFunc(r.objects, (*members).admits)
}

// possible reports whether a language has a string.
func (m *maker) possible(l pattern.Language) bool {
	free := l.Min == 0 && l.Max < 0
	switch {
	case l.Max >= 0 && l.Min > l.Max:
		return false
	case len(l.Match) == 0, free && len(l.Match) == 1 && slices.Contains(slices.Collect(maps.Values(formats)), l.Match[0]):
		return true
	}
	a, err := m.automaton(l)
	return err != nil || len(a) > 0
}

var errStates = errors.New("it takes too many states")

// automaton computes the automaton of a language once. It fails where the automaton or those of
// the whole document take too many states. Combinations get half of them, so that single
// expressions always find some.
func (m *maker) automaton(l pattern.Language) (pattern.Automaton, error) {
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
	m.automata[key] = slices.Concat(pattern.Automaton{}, a) // not nil
	return a, nil
}

// live reports whether a rule admits something, as far as is known.
func (r *rule) live() bool { return r != nil && (r.finite || r.any || r.given != "") }

func (e *elements) admits() bool {
	if e.max >= 0 && e.min > e.max || e.hit != nil && !e.hit.live() {
		return false
	}
	for _, r := range e.prefix[:min(e.min, len(e.prefix))] {
		if !r.live() {
			return false
		}
	}
	return e.min <= len(e.prefix) || e.items.live()
}

func (o *members) admits() bool {
	declared := 0
	for _, s := range o.slots {
		if s.rule.live() {
			declared++
		} else if s.required {
			return false
		}
	}
	if o.max >= 0 && (o.min > o.max || o.required > o.max) {
		return false
	}
	return declared >= o.min || slices.ContainsFunc(o.others, func(x others) bool { return x.rule.live() })
}
