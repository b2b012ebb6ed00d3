// Package gbnf writes grammars in GBNF, llama.cpp's notation (grammars/README.md there).
package gbnf

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Grammar is a set of rules under construction. Its start rule is "root".
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

	Share    Size // see Try: the most that the rules of one tool's arguments may take
	Repeated int  // optional repetitions so far, each of which is a rule to llama.cpp
	States   int  // states of automata that may still be computed, at first maxStates
}

const maxStates = 20_000 // of all automata of one grammar; one takes about 20 µs

// New returns an empty grammar. spacing is that of its JSON values.
func New(spacing Spacing) *Grammar {
	return &Grammar{Spacing: spacing, bodies: map[string]string{}, named: map[string]string{}, once: map[string]string{},
		Share: Limit, States: maxStates}
}

// Add defines a rule. If the name is defined already, it does nothing.
func (g *Grammar) Add(name, body string) {
	if _, ok := g.bodies[name]; ok {
		return
	}
	g.names = append(g.names, name)
	g.bodies[name] = body
	g.size = g.size.plus(sizeOf(name, body))
}

// String returns the grammar's text, root first.
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

// Literal returns a literal that matches exactly s.
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

// Alternatives returns a group that matches any one of the bodies.
func Alternatives(bodies []string) string { return "( " + strings.Join(bodies, " | ") + " )" }

// Marks are our addition to GBNF. A mark matches the empty text, but a text may match each mark at most once. A mark is
// written as a token whose number is in no vocabulary; llama/native/grammar/matcher.h has the same numbers.
const (
	MaxMarks  = 64
	firstMark = 0x7FFF0000
)

// Mark returns mark i, 0 <= i < MaxMarks.
func Mark(i int) string { return fmt.Sprintf("<[%d]>", firstMark+i) }

// These marks match the empty text, too. A unit, such as a call, is the text from UnitBegin to the next UnitEnd. No two
// units of a text may be equal. UnitNext precedes the separator of another unit, and does not match if every possible
// unit was written. A literal must follow each of these marks, and no alternative at that place may begin with the
// literal's first character. Units that begin with a brace are compared without white space between JSON tokens.
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

// WithoutMarks removes all marks, for engines that don't know them. The result admits more texts.
func WithoutMarks(text string) string {
	return notation.ReplaceAllStringFunc(text, func(part string) string {
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(part, "<["), "]>"))
		if err == nil && (n >= firstMark && n < firstMark+MaxMarks || n >= firstUnit && n < firstUnit+unitMarks) {
			return ""
		}
		return part
	})
}

// notation matches literals, tokens and character classes, so that no mark is found in a literal or a class.
var notation = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|<\[[0-9]+\]>|\[(?:[^\]\\]|\\.)*\]`)

// Size is the size of a grammar, or of a part of one.
type Size struct {
	Bytes    int
	Rules    int // named rules, groups and optional repetitions: each is a rule to llama.cpp
	Elements int // elements of the text when bounded repetitions are expanded
}

// Limit is the largest grammar. It is below the limits of package llama.
var Limit = Size{Bytes: 4 << 20, Rules: 19_000, Elements: 2 << 20}

// ErrTooLarge is wrapped where a grammar exceeds Limit.
var ErrTooLarge = errors.New("the grammar of all tools is too large")

// Quarter returns a quarter of a size.
func (s Size) Quarter() Size { return Size{s.Bytes / 4, s.Rules / 4, s.Elements / 4} }

func (s Size) plus(o Size) Size {
	return Size{s.Bytes + o.Bytes, s.Rules + o.Rules, s.Elements + o.Elements}
}

func (s Size) within(o Size) bool {
	return s.Bytes <= o.Bytes && s.Rules <= o.Rules && s.Elements <= o.Elements
}

// TooLarge returns an error that wraps ErrTooLarge if the rules exceed Limit.
func (g *Grammar) TooLarge() error {
	if !g.size.within(Limit) {
		return fmt.Errorf("%w: it has %d bytes, %d rules and %d repetitions, at most %d, %d and %d are possible",
			ErrTooLarge, g.size.Bytes, g.size.Rules, g.size.Elements, Limit.Bytes, Limit.Rules, Limit.Elements)
	}
	return nil
}

// Try calls write and reports whether the rules that it adds are within Share; if not, Try removes
// them. The error is write's, or wraps ErrTooLarge if they are within Share and the whole exceeds Limit.
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

// closing returns the index at which the literal or class that begins at i ends.
func closing(body string, i int, end byte) int {
	for i++; i < len(body) && body[i] != end; i++ {
		if body[i] == '\\' {
			i++
		}
	}
	return i
}
