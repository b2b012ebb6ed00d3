// Package gbnf writes grammars in llama.cpp's notation.
package gbnf

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Grammar is a set of rules under construction. A text begins at the rule "root".
type Grammar struct {
	Spacing Spacing // must not change
	names   []string
	bodies  map[string]string
	size    Size
	named   map[string]string // rules by their bodies
	shared  []string          // bodies in named, in the order in which they were added
	once    map[string]string // see Once
	keys    []string          // keys of once, in the order in which they were added
	fresh   int

	Share    Size // the most that the arguments of one tool may take before they are widened
	Repeated int  // counts written optional repetitions, each a rule to llama.cpp
	States   int  // how many states of automata may still be computed for it
}

const maxStates = 20_000 // bounds the states of automata for one grammar, at about twenty microseconds each

// New is an empty grammar; spacing holds for the JSON values in it.
func New(spacing Spacing) *Grammar {
	return &Grammar{Spacing: spacing, bodies: map[string]string{}, named: map[string]string{}, once: map[string]string{},
		Share: Limit, States: maxStates}
}

// Add defines a rule; a rule of that name that is there stays.
func (g *Grammar) Add(name, body string) {
	if _, ok := g.bodies[name]; ok {
		return
	}
	g.names = append(g.names, name)
	g.bodies[name] = body
	g.size = g.size.plus(sizeOf(name, body))
}

// String is the grammar's text, root first.
func (g *Grammar) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "root ::= %s\n", g.bodies["root"])
	for _, name := range g.names {
		if name != "root" {
			fmt.Fprintf(&b, "%s ::= %s\n", name, g.bodies[name])
		}
	}
	return b.String()
}

// Literal is a literal that matches exactly s.
func Literal(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		default:
			if r < 0x20 || r == 0x7f {
				fmt.Fprintf(&b, `\x%02X`, r)
			} else {
				b.WriteRune(r)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Alternatives is a group that matches any one of the bodies.
func Alternatives(bodies []string) string { return "( " + strings.Join(bodies, " | ") + " )" }

// Marks are our own addition to the notation. A mark matches no text, and a text passes each at most once.
// They are written as numbers of tokens that no vocabulary has; llama/native/grammar/matcher.h has the same.
const (
	MaxMarks  = 64
	firstMark = 0x7FFF0000
)

// Mark is mark i, 0 <= i < MaxMarks.
func Mark(i int) string { return fmt.Sprintf("<[%d]>", firstMark+i) }

// Marks of units match no text either. A unit is a text such as a call: from UnitBegin to the next UnitEnd.
// A text holds no unit twice. Where no other unit is left, it does not pass UnitNext, which separates another one.
// Each stands before a literal, and its first character decides: nothing else may go on with that character
// there. Units that begin with a brace are compared without the white space between JSON tokens.
var (
	UnitBegin = unit(0)
	UnitEnd   = unit(1)
	UnitNext  = unit(2)
)

const (
	firstUnit = firstMark + 0x100
	unitMarks = 3
)

func unit(i int) string { return fmt.Sprintf("<[%d]>", firstUnit+i) }

// WithoutMarks removes marks for engines that don't know them. The result admits more.
func WithoutMarks(text string) string {
	return notation.ReplaceAllStringFunc(text, func(part string) string {
		if isMark(part) {
			return ""
		}
		return part
	})
}

// notation finds literals, tokens and character classes: no mark stands in a literal or a class.
var notation = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|<\[[0-9]+\]>|\[(?:[^\]\\]|\\.)*\]`)

func isMark(part string) bool {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(part, "<["), "]>"))
	return err == nil && (n >= firstMark && n < firstMark+MaxMarks || n >= firstUnit && n < firstUnit+unitMarks)
}

// Size is how much a grammar takes, or a part of one.
type Size struct {
	Bytes    int
	Rules    int // named rules, groups and optional repetitions: each is a rule to llama.cpp
	Elements int // what bounded repetitions are written out to
}

// Limit is the largest grammar, below the limits of package llama, which also count what rules hold.
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
