package gbnf

import (
	"fmt"
	"slices"
	"strings"
)

// Spacing is the white space between the tokens of JSON values.
type Spacing int

const (
	// AnySpacing leaves one space or none wherever the schema converter's
	// grammar has a place for it, which is almost everywhere.
	AnySpacing Spacing = iota
	// DumpsSpacing is that of Python's json.dumps: one space behind each colon
	// and comma, and no other.
	DumpsSpacing
)

// shared are the rules for plain JSON that the schema converter gives every
// grammar under the same name; one copy serves all tools. Three differ from the
// converter's: space, because a model that may write more than one space between
// tokens sometimes never stops; char, because a lone surrogate escape is not
// Unicode and no strict reader accepts it; and number, whose exponent is kept
// within what a float64 holds.
var shared = map[string]string{
	spaceRule: `" "?`,
	"char":    JSONChar,
	"number":  `("-"? integral-part) ("." decimal-part)? ([eE] [-+]? [0-9] [0-9]?)?`,
	"boolean": "", "decimal-part": "", "integral-part": "", "integer": "", "value": "",
	"object": "", "array": "", "uuid": "", "string": "", "null": "",
}

// spaceRule is the converter's rule for white space between JSON tokens. No
// other rule of its grammars gets this name, whatever the schema's names are.
const spaceRule = "space"

// JSONChar is the body of a rule for one character inside a JSON string.
const JSONChar = `[^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" ([0-9a-cA-Ce-fE-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F]` +
	` | [dD] [0-7] [0-9a-fA-F] [0-9a-fA-F]))`

// Place is a JSON string in an imported grammar that stands for a rule of the
// grammar it is imported to.
type Place struct {
	Text string // of letters and digits
	Rule string
}

// fill writes the rule where a body has the string, also inside a longer literal.
func (p Place) fill(body string) string {
	quoted := `\"` + p.Text + `\"`
	body = strings.ReplaceAll(body, `"`+quoted+`"`, p.Rule)
	return strings.ReplaceAll(body, quoted, `" `+p.Rule+` "`)
}

// Import adds the rules of a grammar, each renamed to begin with prefix, and
// returns the new name of its root. The rules of places replace their strings; a
// grammar that admits any value where the string would be has no place.
func (g *Grammar) Import(prefix, text string, places ...Place) (root string, err error) {
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
	if g.spacing == DumpsSpacing {
		names = slices.DeleteFunc(names, func(name string) bool { return name == spaceRule })
		for _, name := range names {
			if rules[name], err = dumpsSpaces(rules[name]); err != nil {
				return "", fmt.Errorf("the grammar's rule %s: %w", name, err)
			}
		}
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
		body = renameRefs(body, rename)
		for _, p := range places {
			body = p.fill(body)
		}
		g.Add(rename(name), body)
	}
	if g.size > maxBytes {
		return "", fmt.Errorf("the grammar of all tools has more than %d bytes", maxBytes)
	}
	return prefix + "root", nil
}

// renameRefs renames the rules that a body refers to.
func renameRefs(body string, rename func(string) string) string {
	var b strings.Builder
	for symbol := range symbols(body) {
		if wordByte(symbol[0]) {
			symbol = rename(symbol)
		}
		b.WriteString(symbol)
	}
	return b.String()
}

// dumpsSpaces writes a space behind colons and commas where a body refers to the
// rule for white space, and nothing in its other places. Those it tells by the
// JSON token beside them, a literal of one character: names and values are never
// written so, since they have quotes or are no punctuation. A place that is none
// of the known ones is an error, so that no new converter's grammar is
// understood wrongly.
func dumpsSpaces(body string) (string, error) {
	list := slices.Collect(symbols(body))
	out := slices.Clone(list)
	beside := func(i, step int) string { // the next symbol that is no white space
		for i += step; i >= 0 && i < len(list); i += step {
			if list[i][0] != ' ' && list[i] != spaceRule {
				return list[i]
			}
		}
		return ""
	}
	for i, symbol := range list {
		if symbol != spaceRule {
			continue
		}
		switch before, behind := beside(i, -1), beside(i, +1); {
		case behind != "" && strings.Contains("?*+{", behind[:1]):
			return "", fmt.Errorf("white space that is repeated by %s", behind)
		case before == `":"` || before == `","`:
			out[i] = `" "`
		case before == `"{"` || before == `"["` || behind == `"}"` || behind == `"]"` || behind == `":"`:
			out[i] = ""
		default:
			return "", fmt.Errorf("white space between %s and %s, which is no place of JSON that is known", before, behind)
		}
	}
	return strings.Join(out, ""), nil
}

// symbols splits a body into literals, character classes, repetitions, words
// (the names of rules), runs of spaces, and single characters of any other kind.
func symbols(body string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := 0; i < len(body); {
			j := symbolEnd(body, i)
			if !yield(body[i:j]) {
				return
			}
			i = j
		}
	}
}

func symbolEnd(body string, i int) int {
	while := func(is func(byte) bool) int {
		j := i
		for j < len(body) && is(body[j]) {
			j++
		}
		return j
	}
	until := func(end byte) int {
		j := i + 1
		for j < len(body) && body[j] != end {
			if body[j] == '\\' {
				j++
			}
			j++
		}
		return min(j+1, len(body))
	}
	switch c := body[i]; {
	case c == '"':
		return until('"')
	case c == '[':
		return until(']')
	case c == '{':
		return until('}')
	case c == ' ':
		return while(func(c byte) bool { return c == ' ' })
	case wordByte(c):
		return while(wordByte)
	}
	return i + 1
}

func wordByte(c byte) bool {
	return c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
