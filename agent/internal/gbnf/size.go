package gbnf

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Size is how much a grammar takes, or a part of one.
type Size struct {
	Bytes    int
	Rules    int // named rules, groups and optional repetitions: each is a rule to llama.cpp
	Elements int // what bounded repetitions are written out to
}

// Limit is the largest grammar. It lies below the limits of package llama, which also count
// what the rules hold besides.
var Limit = Size{Bytes: 4 << 20, Rules: 19_000, Elements: 2 << 20}

// ErrTooLarge says that a grammar exceeds Limit.
var ErrTooLarge = errors.New("the grammar of all tools is too large")

// Quarter is a quarter of a size.
func (s Size) Quarter() Size { return Size{s.Bytes / 4, s.Rules / 4, s.Elements / 4} }

func (s Size) plus(o Size) Size {
	return Size{s.Bytes + o.Bytes, s.Rules + o.Rules, s.Elements + o.Elements}
}

func (s Size) within(o Size) bool {
	return s.Bytes <= o.Bytes && s.Rules <= o.Rules && s.Elements <= o.Elements
}

// TooLarge returns ErrTooLarge with the figures where the rules exceed Limit.
func (g *Grammar) TooLarge() error {
	if !g.size.within(Limit) {
		return fmt.Errorf("%w: it has %d bytes, %d rules and %d repetitions, at most %d, %d and %d are possible",
			ErrTooLarge, g.size.Bytes, g.size.Rules, g.size.Elements, Limit.Bytes, Limit.Rules, Limit.Elements)
	}
	return nil
}

// Try calls write and reports whether the rules that it adds take no more than Share. If they
// take more, Try removes them. It returns ErrTooLarge where they fit and the whole does not.
func (g *Grammar) Try(write func() error) (fits bool, err error) {
	names, shared, keys, size, repeated := len(g.names), len(g.shared), len(g.keys), g.size, g.Repeated
	if err := write(); err != nil {
		return false, err
	}
	if g.size.within(size.plus(g.Share)) {
		return true, g.TooLarge()
	}
	for _, name := range g.names[names:] {
		delete(g.bodies, name)
	}
	for _, body := range g.shared[shared:] {
		delete(g.named, body)
	}
	for _, key := range g.keys[keys:] {
		delete(g.once, key)
	}
	g.names, g.shared, g.keys, g.size, g.Repeated = g.names[:names], g.shared[:shared], g.keys[:keys], size, repeated
	return false, nil
}

// sizeOf is the size of a rule.
func sizeOf(name, body string) Size {
	s := Size{Bytes: len(name) + len(" ::= \n") + len(body), Rules: 1}
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			i = closing(body, i, '"')
		case '[':
			i = closing(body, i, ']')
		case '(', '*', '+', '?':
			s.Rules++
		case '{':
			end := i + strings.IndexByte(body[i:], '}')
			low, high, open := strings.Cut(body[i+1:end], ",")
			least, _ := strconv.Atoi(low)
			most := least
			if open && high == "" {
				most++ // one rule that repeats itself
			} else if open {
				most, _ = strconv.Atoi(high)
			}
			s.Rules += most - least
			s.Elements += 4*most - 3*least
			i = end
		}
	}
	return s
}

// closing is where a literal or a class that begins at i ends.
func closing(body string, i int, end byte) int {
	for i++; i < len(body) && body[i] != end; i++ {
		if body[i] == '\\' {
			i++
		}
	}
	return i
}
