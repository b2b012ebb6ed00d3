// Package gbnf writes grammars in llama.cpp's notation.
package gbnf

import (
	"fmt"
	"strings"
)

// Grammar is a set of rules under construction. The rule "root" is where a text
// begins.
type Grammar struct {
	spacing Spacing
	names   []string
	bodies  map[string]string
	size    Size
	named   map[string]string // rules by their bodies
	shared  []string          // bodies in named, in the order in which they were added
	once    map[string]string // see Once
	keys    []string          // keys of once, in the order in which they were added
	fresh   int

	// Share is the most that the arguments of one tool may take. Those that take more are
	// widened.
	Share Size
	// Repeated is how many optional repetitions its counts have been written out to. Each is a
	// rule to llama.cpp, which bounds them.
	Repeated int
	// States is how many states of automata may still be computed for it.
	States int
}

// maxStates bounds the states of automata that are computed for one grammar, at about twenty
// microseconds each.
const maxStates = 20_000

// New is an empty grammar; spacing holds for the JSON values in it.
func New(spacing Spacing) *Grammar {
	return &Grammar{spacing: spacing, bodies: map[string]string{}, named: map[string]string{}, once: map[string]string{},
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
