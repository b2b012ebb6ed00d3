package schema

import (
	"cmp"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/protocol"
)

// array writes an array rule, "" if it admits nothing.
func (w *writer) array(e *arrayRule) string {
	if !e.admits() {
		return ""
	}
	declared, most := e.prefix, e.max
	if !e.items.satisfiable() {
		most = smallerMax(most, len(declared))
	}
	if i := slices.IndexFunc(declared, func(r *rule) bool { return !r.satisfiable() }); i >= 0 {
		most = smallerMax(most, i)
	}
	if most >= 0 {
		declared = declared[:min(most, len(declared))]
	}
	s := w.Seq().Open("[")
	switch {
	case most == 0:
	case e.contains != nil:
		item, contains := w.rule(e.items), w.rule(e.contains)
		s.Text("(" + w.Seq().Text(item).Comma().String() + ")*").Text(contains).Text("(" + w.Seq().Comma().Text(item).String() + ")*")
	case len(declared) == 0 && e.items.any && e.min == 0 && most < 0:
		return w.JSON(gbnf.AnyArray)
	default:
		s.Text(w.sequence(declared, e.items, e.min, most))
	}
	return s.Close("]").String()
}

// sequence writes the elements of an array: the declared ones, then items, from least to most in
// all.
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

// object writes an object rule, "" if it admits nothing.
func (w *writer) object(o *objectRule) string {
	if !o.admits() {
		return ""
	}
	c := memberChain{writer: w, min: o.min, max: o.max, memo: map[[2]int]ending{}}
	c.properties = slices.DeleteFunc(slices.Clone(o.properties), func(s property) bool { return !s.rule.satisfiable() })
	var undeclared []string
	for _, x := range o.undeclared {
		if !x.rule.satisfiable() {
			continue
		}
		if x.names.Any() && x.rule.any && len(c.properties) == 0 && o.min == 0 && o.max < 0 && len(o.undeclared) == 1 {
			return w.JSON(gbnf.AnyObject)
		}
		if name := w.language(x.names); name != "" {
			undeclared = append(undeclared, w.Seq().Text(name).Colon().Rule(w.rule(x.rule)).String())
		}
	}
	c.last = len(c.properties)
	if len(undeclared) > 0 {
		c.undeclared = w.Rule(strings.Join(undeclared, " | "))
		c.last++
	} else if c.max >= len(c.properties) {
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

// memberChain writes the members of an object in order.
type memberChain struct {
	*writer
	properties []property
	undeclared string // the rule of undeclared members, "" for none
	last       int    // one after the last index
	min, max   int
	memo       map[[2]int]ending
}

// ending is the rest of an object: a rule, or the only possible sequence.
type ending struct {
	body     string
	possible bool
}

// pair appends the i-th member to a sequence.
func (c *memberChain) pair(s *gbnf.Seq, i int) *gbnf.Seq {
	if i == len(c.properties) {
		return s.Rule(c.undeclared)
	}
	return s.Literal(string(protocol.String(c.properties[i].name))).Colon().Rule(c.rule(c.properties[i].rule))
}

// rest writes the members from the i-th on, after n were written. n is clamped to the values
// that make a difference.
func (c *memberChain) rest(i, n int) ending {
	if c.max < 0 {
		n = min(n, max(c.min, 1))
	}
	at := [2]int{i, n}
	if known, ok := c.memo[at]; ok {
		return known
	}
	var alternatives []string
	switch {
	case i == c.last:
		if n >= c.min {
			alternatives = append(alternatives, "")
		}
	case i == len(c.properties) && c.max < 0 && n >= c.min && n > 0:
		alternatives = append(alternatives, "("+c.pair(c.Seq().Comma(), i).String()+")*")
	default:
		alternatives = c.continuations(i, n)
	}
	end := ending{strings.Join(alternatives, " | "), len(alternatives) > 0}
	if len(alternatives) > 1 {
		end.body = c.Rule(end.body)
	}
	c.memo[at] = end
	return end
}

// continuations writes the rest from the i-th member on, with that member and without it.
func (c *memberChain) continuations(i, n int) (alternatives []string) {
	if c.max < 0 || n < c.max {
		if rest := c.rest(min(i+1, len(c.properties)), n+1); rest.possible { // undeclared members repeat
			s := c.Seq()
			if n > 0 {
				s.Comma()
			}
			if c.pair(s, i); rest.body != "" {
				s.Text(rest.body)
			}
			alternatives = append(alternatives, s.String())
		}
	}
	if i < len(c.properties) && c.properties[i].required {
		return alternatives
	}
	if rest := c.rest(i+1, n); rest.possible {
		alternatives = append(alternatives, cmp.Or(rest.body, `""`))
	}
	return alternatives
}
