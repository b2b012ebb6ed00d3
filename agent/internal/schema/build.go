package schema

import (
	"slices"
	"strings"

	"agentd/agent/internal/pattern"
	"agentd/protocol"
)

// rule holds the values that all of some schemas admit.
type rule struct {
	set    []*node
	any    bool   // every value
	given  string // the name of a rule of others
	built  bool
	finite bool // some finite value is known to be admitted

	values  []protocol.Raw
	null    bool
	boolean bool
	numbers []numbers
	texts   []texts
	lists   []*elements
	objects []*members

	name  string // in the grammar
	state int    // of writing it
}

// texts are strings.
type texts struct {
	min, max int // characters; max is -1 for no bound
	patterns []string
	formats  []string
}

// free reports whether they are all strings.
func (t *texts) free() bool { return t.min == 0 && t.max < 0 && len(t.patterns)+len(t.formats) == 0 }

// language is them as a set, what has no automaton left out.
func (t *texts) language() pattern.Language {
	l := pattern.Language{Match: slices.Clone(t.patterns), Min: t.min, Max: t.max}
	for _, f := range t.formats {
		l.Match = append(l.Match, formats[f])
	}
	return l
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
	min, max int // max is -1 for no bound
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
	any   bool // every string is such a name
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
	expander
	Options
	rules map[string]*rule
	queue []*rule
	whole *rule // the one that the options are of, if they change it
}

func (d *Document) maker(o Options) *maker {
	return &maker{Document: d, Options: o, rules: map[string]*rule{}, expander: expander{left: maxParts}}
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
	r := &rule{set: set, any: len(set) == 0}
	if len(m.rules) >= maxRules {
		r.any = true // widened
		r.set = nil
		key = ""
	}
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
			m.build(r, r == m.whole)
		}
	}
	for again := true; again; {
		again = false
		for i := len(m.queue) - 1; i >= 0; i-- {
			if r := m.queue[i]; !r.finite && r.admits() {
				r.finite, again = true, true
			}
		}
	}
}

// build builds one rule; whole reports whether it is that of the whole document.
func (m *maker) build(r *rule, whole bool) {
	r.built = true
	if r.given != "" || r.any && (!whole || !m.Object && len(m.Extra) == 0) {
		return
	}
	r.any = false
	shapes := m.shapes(r.set)
	seen := map[string]bool{}
	for i := range shapes {
		s := &shapes[i]
		if whole && m.Object {
			s.types &= objectType
		}
		if values, limited := constants(r.set, s); limited && (!whole || len(m.Extra) == 0) {
			for _, v := range values {
				for _, spelling := range []protocol.Raw{v, integerOf(v)} {
					if !seen[string(spelling)] && spelling != nil {
						seen[string(spelling)] = true
						r.values = append(r.values, spelling)
					}
				}
			}
			continue
		}
		r.null = r.null || s.types&nullType != 0
		r.boolean = r.boolean || s.types&booleanType != 0
		if s.types&numberTypes != 0 {
			r.numbers = append(r.numbers, numbersOf(s))
		}
		if s.types&stringType != 0 {
			if t, ok := textsOf(s); ok {
				r.texts = append(r.texts, t)
			}
		}
		if s.types&arrayType != 0 {
			r.lists = append(r.lists, m.elementsOf(s))
		}
		if s.types&objectType != 0 {
			r.objects = append(r.objects, m.membersOf(s, whole))
		}
	}
}

// integerOf is a number such as 2.0 as an integer, nil where it is none or written so already.
func integerOf(v protocol.Raw) protocol.Raw {
	if v.Kind() != '0' || !strings.ContainsAny(string(v), ".eE") {
		return nil
	}
	if x, err := parseNumber(v); err == nil && x.IsInt() && len(x.Num().String()) <= maxBoundDigits {
		return protocol.Raw(x.Num().String())
	}
	return nil
}

// textsOf is the strings of a shape; ok is false where their lengths contradict each other.
func textsOf(s *shape) (t texts, ok bool) {
	t.max = -1
	for _, p := range s.parts {
		t.min = max(t.min, p.minLength)
		t.max = least(t.max, p.maxLength)
		if p.pattern != "" && !slices.Contains(t.patterns, p.pattern) {
			t.patterns = append(t.patterns, p.pattern)
		}
		if p.format != "" && !slices.Contains(t.formats, p.format) {
			t.formats = append(t.formats, p.format)
		}
	}
	return t, t.max < 0 || t.min <= t.max
}

// least is the smaller of two maxima, -1 being none.
func least(a, b int) int {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// elementsOf is the lists of a shape.
func (m *maker) elementsOf(s *shape) *elements {
	e := &elements{max: -1}
	length := 0
	for _, p := range s.parts {
		e.min, e.max = max(e.min, p.minItems), least(e.max, p.maxItems)
		length = max(length, len(p.prefix))
	}
	// at are the schemas of an element.
	at := func(i int) (set []*node, open bool) {
		open = true
		for _, p := range s.parts {
			switch {
			case i < len(p.prefix):
				set = append(set, p.prefix[i])
			case p.items != nil:
				set = append(set, p.items)
				open = false
			}
		}
		return set, open
	}
	for i := range length {
		set, _ := at(i)
		e.prefix = append(e.prefix, m.rule(set...))
	}
	rest, silent := at(length)
	if !silent || m.Open || length == 0 || e.min > length {
		e.items = m.rule(rest...)
	}
	// One element that something is true of; else, and where lengths count too, that is
	// checked.
	if length == 0 && e.min <= 1 && e.max < 0 {
		for _, p := range s.parts {
			if p.contains != nil && p.minContains == 1 && e.hit == nil {
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
func (r *rule) admits() bool {
	switch {
	case r.any, r.given != "", r.null, r.boolean, len(r.values) > 0:
		return true
	}
	for i := range r.numbers {
		if body, free := r.numbers[i].body(); free || body != "" {
			return true
		}
	}
	for i := range r.texts {
		if r.texts[i].possible() {
			return true
		}
	}
	return slices.ContainsFunc(r.lists, (*elements).admits) || slices.ContainsFunc(r.objects, (*members).admits)
}

// possible reports whether there may be such a string.
func (t *texts) possible() bool {
	if len(t.patterns)+len(t.formats) == 0 || len(t.patterns)+len(t.formats) == 1 && t.min == 0 && t.max < 0 && len(t.formats) == 1 {
		return true
	}
	a, err := t.language().Automaton(maxStates)
	return err != nil || len(a) > 0
}

// live reports whether a rule admits something, as far as is known.
func (r *rule) live() bool { return r != nil && (r.finite || r.any || r.given != "") }

func (e *elements) admits() bool {
	if e.max >= 0 && e.min > e.max || e.hit != nil && !e.hit.live() {
		return false
	}
	for i := range e.min {
		if i >= len(e.prefix) {
			return e.items.live()
		}
		if !e.prefix[i].live() {
			return false
		}
	}
	return true
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
	required := 0
	for _, s := range o.slots {
		if s.required {
			required++
		}
	}
	if o.max >= 0 && (o.min > o.max || required > o.max) {
		return false
	}
	return declared >= o.min || slices.ContainsFunc(o.others, func(x others) bool { return x.rule.live() })
}
