// Package gbnftest matches texts against grammars, for tests: a plain recogniser that shares
// nothing with the one that constrains models.
package gbnftest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Grammar is a parsed grammar.
type Grammar struct{ rules map[string]expr }

type expr interface{}

type (
	class struct {
		ranges []rune
		not    bool
	}
	reference string
	sequence  []expr
	choice    []expr
	repeat    struct {
		of       expr
		min, max int
	}
)

// Parse reads a grammar's text, a rule a line.
func Parse(text string) (g *Grammar, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	g = &Grammar{map[string]expr{}}
	for line := range strings.Lines(text) {
		name, body, ok := strings.Cut(strings.TrimRight(line, "\n"), " ::= ")
		if !ok {
			return nil, fmt.Errorf("no rule: %q", line)
		}
		p := parser{body}
		g.rules[name] = p.choice()
		if p.text != "" {
			return nil, fmt.Errorf("rule %s: %q is left", name, p.text)
		}
	}
	for _, e := range g.rules {
		g.check(e)
	}
	return g, nil
}

// check panics where a rule is missing.
func (g *Grammar) check(e expr) {
	switch e := e.(type) {
	case reference:
		if g.rules[string(e)] == nil {
			panic("there is no rule " + string(e))
		}
	case sequence:
		for _, x := range e {
			g.check(x)
		}
	case choice:
		for _, x := range e {
			g.check(x)
		}
	case repeat:
		g.check(e.of)
	}
}

type parser struct{ text string }

func (p *parser) space() { p.text = strings.TrimLeft(p.text, " ") }

func (p *parser) choice() expr {
	list := choice{p.sequence()}
	for strings.HasPrefix(p.text, "|") {
		p.text = p.text[1:]
		list = append(list, p.sequence())
	}
	if len(list) == 1 {
		return list[0]
	}
	return list
}

func (p *parser) sequence() expr {
	var list sequence
	for {
		p.space()
		if p.text == "" || p.text[0] == '|' || p.text[0] == ')' {
			return list
		}
		var items []expr
		switch c := p.text[0]; c {
		case '"':
			p.text = p.text[1:]
			for p.text[0] != '"' {
				r := p.char()
				items = append(items, class{ranges: []rune{r, r}})
			}
			p.text = p.text[1:]
		case '[':
			p.text = p.text[1:]
			items = append(items, p.class())
		case '(':
			p.text = p.text[1:]
			items = append(items, p.choice())
			p.text = p.text[1:]
		default:
			n := 0
			for n < len(p.text) && (p.text[n] == '-' || p.text[n] >= '0' && p.text[n] <= '9' || p.text[n] >= 'a' && p.text[n] <= 'z' || p.text[n] >= 'A' && p.text[n] <= 'Z') {
				n++
			}
			if n == 0 {
				panic("unexpected " + p.text)
			}
			items = append(items, reference(p.text[:n]))
			p.text = p.text[n:]
		}
		var item expr = sequence(items)
		if len(items) == 1 {
			item = items[0]
		}
		list = append(list, p.repeats(item))
	}
}

func (p *parser) repeats(item expr) expr {
	for p.text != "" {
		switch p.text[0] {
		case '*':
			item = repeat{item, 0, -1}
		case '+':
			item = repeat{item, 1, -1}
		case '?':
			item = repeat{item, 0, 1}
		case '{':
			end := strings.IndexByte(p.text, '}')
			low, high, open := strings.Cut(p.text[1:end], ",")
			least, err := strconv.Atoi(low)
			if err != nil {
				panic(err)
			}
			most := least
			if open {
				if most = -1; high != "" {
					if most, err = strconv.Atoi(high); err != nil {
						panic(err)
					}
				}
			}
			item = repeat{item, least, most}
			p.text = p.text[end:]
		default:
			return item
		}
		p.text = p.text[1:]
	}
	return item
}

func (p *parser) class() (c class) {
	if p.text[0] == '^' {
		c.not = true
		p.text = p.text[1:]
	}
	for p.text[0] != ']' {
		low := p.char()
		high := low
		if p.text[0] == '-' && p.text[1] != ']' {
			p.text = p.text[1:]
			high = p.char()
		}
		c.ranges = append(c.ranges, low, high)
	}
	p.text = p.text[1:]
	return c
}

func (p *parser) char() rune {
	r, n := utf8.DecodeRuneInString(p.text)
	p.text = p.text[n:]
	if r != '\\' {
		return r
	}
	c := p.text[0]
	p.text = p.text[1:]
	if n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]; n > 0 {
		x, err := strconv.ParseUint(p.text[:n], 16, 32)
		if err != nil {
			panic(err)
		}
		p.text = p.text[n:]
		return rune(x)
	}
	switch c {
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'n':
		return '\n'
	case '\\', '"', '[', ']', '-':
		return rune(c)
	}
	panic("unknown escape " + string(c))
}

// Admits reports whether the rule admits a text as a whole.
func (g *Grammar) Admits(rule, text string) bool {
	m := matcher{g, []rune(text), map[place][]int{}}
	return slices.Contains(m.rule(rule, 0), len(m.text))
}

type place struct {
	rule string
	at   int
}

type matcher struct {
	*Grammar
	text []rune
	memo map[place][]int
}

func (m *matcher) rule(name string, at int) []int {
	key := place{name, at}
	if ends, ok := m.memo[key]; ok {
		return ends
	}
	m.memo[key] = nil // left recursion: our grammars have none
	ends := m.ends(m.rules[name], at)
	m.memo[key] = ends
	return ends
}

// ends are where an expression that begins at a place may end.
func (m *matcher) ends(e expr, at int) []int {
	switch e := e.(type) {
	case class:
		if at == len(m.text) {
			return nil
		}
		in := false
		for i := 0; i < len(e.ranges); i += 2 {
			in = in || e.ranges[i] <= m.text[at] && m.text[at] <= e.ranges[i+1]
		}
		if in == e.not {
			return nil
		}
		return []int{at + 1}
	case reference:
		return m.rule(string(e), at)
	case sequence:
		from := []int{at}
		for _, x := range e {
			from = m.after(x, from)
		}
		return from
	case choice:
		var out []int
		for _, x := range e {
			out = union(out, m.ends(x, at))
		}
		return out
	case repeat:
		from := []int{at}
		for range e.min {
			from = m.after(e.of, from)
		}
		out := from
		for i := e.min; (e.max < 0 || i < e.max) && len(from) > 0; i++ {
			var fresh []int
			for _, end := range m.after(e.of, from) {
				if !slices.Contains(out, end) {
					fresh = append(fresh, end)
				}
			}
			out = union(out, fresh)
			from = fresh
		}
		return out
	}
	return nil
}

func (m *matcher) after(e expr, from []int) (out []int) {
	for _, at := range from {
		out = union(out, m.ends(e, at))
	}
	return out
}

func union(a, b []int) []int {
	if len(a) == 0 {
		return b
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
