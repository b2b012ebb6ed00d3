package schema

import (
	"cmp"
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
	declared, most := e.prefix, e.max
	if !e.items.live() {
		most = lower(most, len(declared))
	}
	if i := slices.IndexFunc(declared, func(r *rule) bool { return !r.live() }); i >= 0 {
		most = lower(most, i)
	}
	if most >= 0 {
		declared = declared[:min(most, len(declared))]
	}
	s := w.Seq().Open("[")
	switch {
	case most == 0:
	case e.hit != nil:
		item, hit := w.rule(e.items), w.rule(e.hit)
		s.Text("(" + w.Seq().Text(item).Comma().String() + ")*").Text(hit).Text("(" + w.Seq().Comma().Text(item).String() + ")*")
	case len(declared) == 0 && e.items.any && e.min == 0 && most < 0:
		return w.JSON(gbnf.AnyArray)
	default:
		s.Text(w.sequence(declared, e.items, e.min, most))
	}
	return s.Close("]").String()
}

// sequence is elements: those that are declared, then items, most in all. Each is optional
// behind the least that there are.
func (w *writer) sequence(declared []*rule, items *rule, least, most int) (body string) {
	if most < 0 || most > len(declared) {
		if len(declared) == 0 {
			declared = []*rule{items}
		}
		if n := len(declared); most != n {
			body = w.repeated(w.Rule(w.Seq().Comma().Text(w.rule(items)).String()), max(least-n, 0), max(most-n, -1))
		}
	}
	for i := len(declared) - 1; i >= 0; i-- {
		s := w.Seq()
		if i > 0 {
			s.Comma()
		}
		s.Text(w.rule(declared[i]))
		if body != "" {
			s.Text(body)
		}
		if body = s.String(); least <= i {
			body = w.Rule(body) + "?"
		}
	}
	return body
}

// members is objects, "" where there are none.
func (w *writer) members(o *members) string {
	if !o.admits() {
		return ""
	}
	c := chain{writer: w, min: o.min, max: o.max, rests: map[[2]int]ending{}}
	c.slots = slices.DeleteFunc(slices.Clone(o.slots), func(s slot) bool { return !s.rule.live() })
	var others []string
	for _, x := range o.others {
		if !x.rule.live() {
			continue
		}
		if x.names.Any() && x.rule.any && len(c.slots) == 0 && o.min == 0 && o.max < 0 && len(o.others) == 1 {
			return w.JSON(gbnf.AnyObject)
		}
		if name := w.language(x.names); name != "" {
			others = append(others, w.Seq().Text(name).Colon().Rule(w.rule(x.rule)).String())
		}
	}
	c.last = len(c.slots)
	if len(others) > 0 {
		c.others = w.Rule(strings.Join(others, " | "))
		c.last++
	} else if c.max >= len(c.slots) {
		c.max = -1
	}
	if (c.last+1)*(max(c.min, c.max)+1) > maxCounted {
		c.min, c.max = 0, -1 // widened
	}
	all := c.rest(0, 0)
	if !all.possible {
		return ""
	}
	s := w.Seq().Open("{")
	if all.body != "" {
		s.Text(all.body)
	}
	return s.Close("}").String()
}

// chain is the members of objects in their order.
type chain struct {
	*writer
	slots    []slot
	others   string // a rule of members behind them, "" for none
	last     int    // the place behind all
	min, max int
	rests    map[[2]int]ending
}

// ending is how members end: a rule, or the only sequence that is possible.
type ending struct {
	body     string
	possible bool
}

// pair appends the member in a place to a sequence.
func (c *chain) pair(s *gbnf.Seq, i int) *gbnf.Seq {
	if i == len(c.slots) {
		return s.Rule(c.others)
	}
	return s.Literal(string(protocol.String(c.slots[i].name))).Colon().Rule(c.rule(c.slots[i].rule))
}

// rest is the members from the i-th on, behind n others. n is cut to the values that make a
// difference.
func (c *chain) rest(i, n int) ending {
	if c.max < 0 {
		n = min(n, max(c.min, 1))
	}
	at := [2]int{i, n}
	if known, ok := c.rests[at]; ok {
		return known
	}
	var ways []string
	switch {
	case i == c.last:
		if n >= c.min {
			ways = append(ways, "")
		}
	case i == len(c.slots) && c.max < 0 && n >= c.min && n > 0:
		ways = append(ways, "("+c.pair(c.Seq().Comma(), i).String()+")*")
	default:
		ways = c.further(i, n)
	}
	end := ending{strings.Join(ways, " | "), len(ways) > 0}
	if len(ways) > 1 {
		end.body = c.Rule(end.body)
	}
	c.rests[at] = end
	return end
}

// further are the ways from a place on, with its member and without.
func (c *chain) further(i, n int) (ways []string) {
	if c.max < 0 || n < c.max {
		if rest := c.rest(min(i+1, len(c.slots)), n+1); rest.possible { // others may come again
			s := c.Seq()
			if n > 0 {
				s.Comma()
			}
			if c.pair(s, i); rest.body != "" {
				s.Text(rest.body)
			}
			ways = append(ways, s.String())
		}
	}
	if i < len(c.slots) && c.slots[i].required {
		return ways
	}
	if rest := c.rest(i+1, n); rest.possible {
		ways = append(ways, cmp.Or(rest.body, `""`))
	}
	return ways
}
