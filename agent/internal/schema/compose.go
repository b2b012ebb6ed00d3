package schema

import (
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/protocol"
)

// elements is lists, "" where there are none.
func (w *writer) elements(e *elements) string {
	if !e.admits() {
		return ""
	}
	most := e.max
	if e.items == nil || !e.items.live() {
		most = least(most, len(e.prefix))
	}
	for i, r := range e.prefix {
		if !r.live() {
			most = least(most, i)
		}
	}
	if e.items != nil && e.items.any && len(e.prefix) == 0 && e.min == 0 && most < 0 && e.hit == nil {
		return w.JSON(gbnf.AnyArray)
	}
	s := w.Seq().Open("[")
	switch {
	case most == 0:
	case e.hit != nil:
		item, hit := w.rule(e.items), w.rule(e.hit)
		s.Text("(" + w.Seq().Text(item).Comma().String() + ")*").Text(hit).Text("(" + w.Seq().Comma().Text(item).String() + ")*")
	default:
		body := w.from(e, 0, most)
		if e.min == 0 {
			body = "(" + body + ")?"
		}
		s.Text(body)
	}
	return s.Close("]").String()
}

// from is the elements from the i-th on, of which there is one at least.
func (w *writer) from(e *elements, i, most int) string {
	s := w.Seq()
	if i > 0 {
		s.Comma()
	}
	if i >= len(e.prefix) {
		name := w.rule(e.items)
		if i == 0 {
			s.Text(name)
			i = 1
		} else {
			s = w.Seq()
		}
		if most != i {
			further := w.Rule(w.Seq().Comma().Text(name).String())
			rest := -1
			if most >= 0 {
				rest = most - i
			}
			s.Text(w.repeated(further, max(e.min-i, 0), rest))
		}
		return s.String()
	}
	s.Text(w.rule(e.prefix[i]))
	if i++; i == most {
		return s.String()
	}
	rest := w.from(e, i, most)
	if i >= len(e.prefix) { // it may be empty by itself
		return s.Text(rest).String()
	}
	if e.min <= i {
		rest = w.Rule(rest) + "?"
	}
	return s.Text(rest).String()
}

// members is objects, "" where there are none.
func (w *writer) members(o *members) string {
	if !o.admits() {
		return ""
	}
	slots := slices.DeleteFunc(slices.Clone(o.slots), func(s slot) bool { return !s.rule.live() })
	c := chain{writer: w, min: o.min, max: o.max, more: -1, rests: map[[2]int]*string{}}
	required := 0
	for _, s := range slots {
		name, value := string(protocol.String(s.name)), w.rule(s.rule)
		c.pairs = append(c.pairs, func(s *gbnf.Seq) *gbnf.Seq { return s.Literal(name).Colon().Rule(value) })
		c.required = append(c.required, s.required)
		if s.required {
			required++
		}
	}
	var others []string
	for _, x := range o.others {
		if !x.rule.live() {
			continue
		}
		if x.any && x.rule.any && len(slots) == 0 && o.min == 0 && o.max < 0 && len(o.others) == 1 {
			return w.JSON(gbnf.AnyObject)
		}
		name := w.JSON(gbnf.AnyString)
		if !x.any {
			if name = w.language(x.names); name == "" {
				continue
			}
		}
		others = append(others, w.Seq().Text(name).Colon().Rule(w.rule(x.rule)).String())
	}
	if len(others) > 0 {
		c.more = len(c.pairs)
		name := w.Rule(strings.Join(others, " | "))
		c.pairs = append(c.pairs, func(s *gbnf.Seq) *gbnf.Seq { return s.Rule(name) })
		c.required = append(c.required, false)
	}
	if c.min <= required {
		c.min = 0
	}
	if c.max >= len(slots) && c.more < 0 {
		c.max = -1
	}
	if (len(c.pairs)+1)*(max(c.min, c.max)+1) > maxCounted {
		c.min, c.max = 0, -1 // widened
	}
	body, possible := c.rest(0, 0)
	if !possible {
		return ""
	}
	s := w.Seq().Open("{")
	if body != "" {
		s.Text(body)
	}
	return s.Close("}").String()
}

// chain is the members of objects in their order.
type chain struct {
	*writer
	pairs    []func(*gbnf.Seq) *gbnf.Seq // the last one any number of times, if more is its place
	required []bool
	more     int
	min, max int
	rests    map[[2]int]*string // nil where there is no way
}

// rest returns the members from the i-th on, behind n others: a rule, or the only sequence that
// is possible. n is cut to the values that make a difference.
func (c *chain) rest(i, n int) (body string, possible bool) {
	if c.max < 0 {
		n = min(n, max(c.min, 1))
	}
	at := [2]int{i, n}
	if body, ok := c.rests[at]; ok {
		if body == nil {
			return "", false
		}
		return *body, true
	}
	var ways []string
	with := func(next int) {
		if rest, ok := c.rest(next, n+1); ok {
			s := c.Seq()
			if n > 0 {
				s.Comma()
			}
			if c.pairs[i](s); rest != "" {
				s.Text(rest)
			}
			ways = append(ways, s.String())
		}
	}
	switch {
	case i == len(c.pairs):
		if n >= c.min {
			ways = append(ways, "")
		}
	case i == c.more && c.max < 0 && n >= c.min && n > 0:
		ways = append(ways, "("+c.pairs[i](c.Seq().Comma()).String()+")*")
	default:
		if c.max < 0 || n < c.max {
			next := i + 1
			if i == c.more {
				next = i
			}
			with(next)
		}
		if !c.required[i] {
			if rest, ok := c.rest(i+1, n); ok {
				if rest == "" {
					rest = `""`
				}
				ways = append(ways, rest)
			}
		}
	}
	c.rests[at] = nil
	switch len(ways) {
	case 0:
		return "", false
	case 1:
		body = ways[0]
	default:
		body = c.Rule(strings.Join(ways, " | "))
	}
	c.rests[at] = &body
	return body, true
}
