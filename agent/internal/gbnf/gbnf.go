// Package gbnf writes grammars in llama.cpp's notation.
package gbnf

import (
	"fmt"
	"strings"
)

// Grammar is a set of rules under construction. The rule "root" is where a text
// begins.
type Grammar struct {
	names  []string
	bodies map[string]string
	size   int // of the bodies in bytes
}

// maxBytes bounds the grammars that are put together: llama.cpp's side takes no
// larger one, so what would come after is not worth its time.
const maxBytes = 4 << 20

// New is an empty grammar.
func New() *Grammar { return &Grammar{bodies: map[string]string{}} }

// Add defines a rule; a rule of that name that is there stays.
func (g *Grammar) Add(name, body string) {
	if _, ok := g.bodies[name]; ok {
		return
	}
	g.names = append(g.names, name)
	g.bodies[name] = body
	g.size += len(body)
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

// shared are the rules for plain JSON that the schema converter gives every
// grammar under the same name; one copy serves all tools. Three differ from the
// converter's: space, because a model that may write more than one space between
// tokens sometimes never stops; char, because a lone surrogate escape is not
// Unicode and no strict reader accepts it; and number, whose exponent is kept
// within what a float64 holds.
var shared = map[string]string{
	"space":   `" "?`,
	"char":    JSONChar,
	"number":  `("-"? integral-part) ("." decimal-part)? ([eE] [-+]? [0-9] [0-9]?)?`,
	"boolean": "", "decimal-part": "", "integral-part": "", "integer": "", "value": "",
	"object": "", "array": "", "uuid": "", "string": "", "null": "",
}

// JSONChar is the body of a rule for one character inside a JSON string.
const JSONChar = `[^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" ([0-9a-cA-Ce-fE-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F]` +
	` | [dD] [0-7] [0-9a-fA-F] [0-9a-fA-F]))`

// Import adds the rules of a grammar, each renamed to begin with prefix, and
// returns the new name of its root.
func (g *Grammar) Import(prefix, text string) (root string, err error) {
	rules := map[string]string{}
	var names []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, body, ok := strings.Cut(line, "::=")
		if !ok {
			return "", fmt.Errorf("a grammar line without ::= (%.60q)", line)
		}
		name = strings.TrimSpace(name)
		names = append(names, name)
		rules[name] = strings.TrimSpace(body)
	}
	if _, ok := rules["root"]; !ok {
		return "", fmt.Errorf("the grammar has no rule root")
	}
	rename := func(name string) string {
		own, isShared := shared[name]
		if isShared {
			if had, ok := g.bodies[name]; !ok || had == rules[name] || own != "" {
				return name
			}
		}
		if _, ok := rules[name]; ok {
			return prefix + name
		}
		return name
	}
	for _, name := range names {
		body := rules[name]
		if own := shared[name]; own != "" {
			body = own
		}
		g.Add(rename(name), renameRefs(body, rename))
	}
	if g.size > maxBytes {
		return "", fmt.Errorf("the grammar of all tools has more than %d bytes", maxBytes)
	}
	return prefix + "root", nil
}

// renameRefs renames the rules that a body refers to, and leaves alone what
// looks like names inside literals, character classes and repetitions.
func renameRefs(body string, rename func(string) string) string {
	var b strings.Builder
	for i := 0; i < len(body); {
		c := body[i]
		switch {
		case c == '"' || c == '[' || c == '{':
			end := c
			switch c {
			case '[':
				end = ']'
			case '{':
				end = '}'
			}
			j := i + 1
			for j < len(body) && body[j] != end {
				if body[j] == '\\' {
					j++
				}
				j++
			}
			j = min(j+1, len(body))
			b.WriteString(body[i:j])
			i = j
		case wordByte(c):
			j := i
			for j < len(body) && wordByte(body[j]) {
				j++
			}
			b.WriteString(rename(body[i:j]))
			i = j
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}

func wordByte(c byte) bool {
	return c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
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
