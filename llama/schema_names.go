package llama

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// withJSONNames is the converter's grammar with the rules of further members' names as
// they should be.
func withJSONNames(grammar string) (string, error) {
	var b strings.Builder
	for line := range strings.Lines(grammar) {
		if head, body, ok := strings.Cut(line, "::= "); ok && strings.HasPrefix(body, otherNames) {
			names, err := jsonNames(strings.TrimSuffix(body, "\n"))
			if err != nil {
				return "", err
			}
			line = head + "::= " + names + "\n"
		}
		b.WriteString(line)
	}
	return b.String(), nil
}

// otherNames begins the rule of all strings but the names of some properties.
const otherNames = `["] ( `

// jsonNames writes that rule anew. The converter's is a tree of the names' characters,
// and at each node any other character but a quotation mark goes on with any string:
// also a backslash that escapes nothing. Names with an escape where they differ from
// the properties' are not admitted; they could spell the properties' names.
func jsonNames(body string) (string, error) {
	p := namesParser{rest: body[len(otherNames):]}
	p.node(0)
	if p.failed || p.rest != ` )? ["]` && p.rest != ` ) ["]` {
		return "", fmt.Errorf("names of additional members are in a form that is not known: %.80q", body)
	}
	return otherNames + p.out.String() + p.rest, nil
}

// namesParser reads the tree as the converter writes it, which escapes nothing.
type namesParser struct {
	rest   string
	out    bytes.Buffer
	failed bool
}

// skip passes a text that must be next.
func (p *namesParser) skip(text string) {
	var ok bool
	if p.rest, ok = strings.CutPrefix(p.rest, text); !ok {
		p.failed = true
	}
}

// node reads the alternatives of one node and writes them in JSON's characters.
func (p *namesParser) node(depth int) {
	if p.failed = p.failed || depth > MaxGrammarNesting; p.failed {
		return
	}
	var children []rune
	for !p.failed && strings.HasPrefix(p.rest, "[") && !strings.HasPrefix(p.rest, `[^"`) {
		r, size := utf8.DecodeRuneInString(p.rest[1:])
		p.rest = p.rest[1+size:]
		p.skip("]")
		children = append(children, r)
		begin := p.out.Len()
		p.out.WriteString("[" + member(r) + "]")
		if strings.HasPrefix(p.rest, " (") {
			p.skip(" (")
			p.out.WriteString(" (")
			p.node(depth + 1)
			p.out.WriteString(")")
			p.skip(")")
		} else {
			p.skip(" char+")
			p.out.WriteString(" char+")
		}
		p.skip(" | ")
		p.out.WriteString(" | ")
		if escaped(r) {
			p.out.Truncate(begin)
		}
	}
	if len(children) > 0 {
		p.skip(`[^"` + string(children) + "] char*")
	}
	p.out.WriteString(`[^"`)
	for _, r := range children {
		if !escaped(r) {
			p.out.WriteString(member(r))
		}
	}
	p.out.WriteString(`\\\x7F\x00-\x1F] char*`)
}

// escaped tells whether the rule for characters has r only behind a backslash, or not
// at all.
func escaped(r rune) bool { return r == '"' || r == '\\' || r < 0x20 || r == 0x7f }

// member is a character as it stands in a class.
func member(r rune) string {
	if strings.ContainsRune(`]-^`, r) {
		return fmt.Sprintf(`\x%02X`, r)
	}
	return string(r)
}
