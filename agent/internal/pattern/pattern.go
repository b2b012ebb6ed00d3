// Package pattern makes automata of the regular expressions, lengths and excluded strings of JSON schemas.
package pattern

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of a pattern that becomes an automaton: its bytes, and the ranges in its classes.
const maxBytes, maxRanges = 4096, 20000

// Pattern is a regular expression: a string matches all of Match and none of Avoid, as in a [Language].
type Pattern struct {
	Match, Avoid []string // of look-aheads at the beginning, after ^
	source       string
	compiled     []*regexp.Regexp
}

// ahead matches a pattern that begins with a look-ahead without groups. Alternatives after it must be in a group.
var ahead = regexp.MustCompile(`(?s)^\^\(\?([=!])((?:[^()\\]|\\.)*)\)((?:[^|\\]|\\.|\((?:[^()[\]\\]|\\.)*\))*)$`)

// Compile compiles a regular expression of ECMA-262. \d, \w and \s match ASCII only, and a
// dot does not match a line end. Other look-around is ErrLookAround; back references are errors, too.
func Compile(pattern string) (*Pattern, error) {
	p := &Pattern{Match: []string{pattern}, source: pattern}
	for m := ahead.FindStringSubmatch(pattern); m != nil; m = ahead.FindStringSubmatch(p.Match[0]) {
		p.Match[0] = "^" + m[3]
		list := map[string]*[]string{"=": &p.Match, "!": &p.Avoid}[m[1]]
		*list = append(*list, "^(?:"+m[2]+")")
	}
	for _, expr := range slices.Concat(p.Match, p.Avoid) {
		text, err := Translate(expr)
		re, broken := regexp.Compile(text)
		if err = cmp.Or(err, plainError(broken)); err != nil {
			return nil, err
		}
		p.compiled = append(p.compiled, re)
	}
	return p, nil
}

func (p *Pattern) String() string { return p.source }

// MatchString reports whether a string matches.
func (p *Pattern) MatchString(s string) bool {
	for i, re := range p.compiled {
		if re.MatchString(s) != (i < len(p.Match)) {
			return false
		}
	}
	return true
}

func parse(pattern string) (*syntax.Prog, error) {
	if len(pattern) > maxBytes {
		return nil, fmt.Errorf("it has %d bytes, at most %d are possible", len(pattern), maxBytes)
	}
	text, err := Translate(pattern)
	if err != nil {
		return nil, err
	}
	return program(text)
}

// program compiles an expression in Go's notation.
func program(text string) (*syntax.Prog, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, plainError(err)
	}
	if n := ranges(tree); n > maxRanges {
		return nil, fmt.Errorf("its classes have %d ranges of characters, at most %d are possible", n, maxRanges)
	}
	return syntax.Compile(tree.Simplify())
}

func ranges(re *syntax.Regexp) int {
	n := 0
	if re.Op == syntax.OpCharClass {
		n = len(re.Rune) / 2
	}
	for _, sub := range re.Sub {
		n += ranges(sub)
	}
	return n
}

// ErrLookAround is the error of a pattern with a group of another kind.
var ErrLookAround = errors.New("groups other than (…), (?:…) and (?<name>…), such as look-around, can't be expressed")

// plainError rewrites the parser's error, which quotes the translated pattern.
func plainError(err error) error {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case syntax.ErrInvalidPerlOp, syntax.ErrInvalidNamedCapture:
		return ErrLookAround
	case syntax.ErrInvalidEscape:
		return fmt.Errorf("the escape %s can't be expressed", e.Expr)
	case syntax.ErrInvalidRepeatSize:
		return fmt.Errorf("the repetition %s is more than 1,000 or in the wrong order", e.Expr)
	}
	return fmt.Errorf("%s: %s", e.Code, e.Expr)
}

// Translate converts \u and the dot of ECMA-262 to the syntax of Go's regexp.
func Translate(pattern string) (string, error) {
	var b strings.Builder
	inClass := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '[' && !inClass:
			inClass = true
		case c == ']':
			inClass = false
		case c == '.' && !inClass:
			b.WriteString(`[^\n\r\x{2028}\x{2029}]`)
			continue
		}
		if pattern[i] != '\\' || i+1 == len(pattern) {
			b.WriteByte(pattern[i])
			continue
		}
		i++
		switch c := pattern[i]; c {
		case 'u':
			r, n := codePoint(pattern[i+1:])
			if n == 0 {
				return "", errors.New(`\u must be followed by four hexadecimal digits, or by up to six in braces, of a character`)
			}
			fmt.Fprintf(&b, `\x{%X}`, r)
			i += n
		case 'Q', 'E', 'C', 'a': // mean something else to the parser
			return "", fmt.Errorf(`the escape \%c can't be expressed`, c)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// codePoint reads the digits after \u. n is their number of bytes, 0 if they are invalid.
func codePoint(s string) (r rune, n int) {
	if digits, rest, ok := strings.Cut(s, "}"); ok && strings.HasPrefix(digits, "{") {
		x, err := strconv.ParseUint(digits[1:], 16, 32)
		if err != nil || x > unicode.MaxRune || utf16.IsSurrogate(rune(x)) {
			return 0, 0
		}
		return rune(x), len(s) - len(rest)
	}
	for _, n := range []int{4, len(`d83d\ude00`)} { // one UTF-16 unit, or two
		var text string
		if len(s) >= n && json.Unmarshal([]byte(`"\u`+s[:n]+`"`), &text) == nil {
			r, size := utf8.DecodeRuneInString(text)
			if size == len(text) && (r != unicode.ReplacementChar || strings.EqualFold(s[:n], "fffd")) {
				return r, n
			}
		}
	}
	return 0, 0
}

// folds returns a character and those that differ from it in case only, as ranges.
func folds(r rune) []rune {
	list := []rune{r, r}
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		list = append(list, f, f)
	}
	slices.Sort(list)
	return list
}

// code returns the escape of a character in GBNF.
func code(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08X`, r)
	}
	return fmt.Sprintf(`\u%04X`, r)
}

// The range of surrogates, which are not characters.
const surrogates, afterSurrogates = 0xd800, 0xe000

// unescaped are the characters that a JSON string may contain without escapes, as ranges.
var unescaped = []rune{' ', '"' - 1, '"' + 1, '\\' - 1, '\\' + 1, surrogates - 1, afterSurrogates, unicode.MaxRune}

// Class returns the GBNF of one character of a JSON string, escaped if necessary. Each pair of ranges
// is the first and the last character of a range. Without ranges it is "".
func Class(ranges []rune) string {
	escaped := map[string]string{} // last characters by what is before them
	for r := range slices.Chunk(ranges, 2) {
		for c := r[0]; c <= min(r[1], '\\'); c++ {
			if c < ' ' || c == '"' || c == '\\' {
				text, _ := json.Marshal(string(c)) //nolint:errchkjson // a string is always valid
				last := len(text) - 2              // before the quotation mark
				escaped[string(text[1:last])] += string(text[last])
			}
		}
	}
	var parts []string
	if plain := within(ranges, unescaped); plain != "" {
		parts = append(parts, "["+plain+"]")
	}
	double := strings.NewReplacer(`\`, `\\`)
	for _, begin := range slices.Sorted(maps.Keys(escaped)) {
		parts = append(parts, double.Replace(`"`+begin+`" [`+escaped[begin]+"]"))
	}
	if len(parts) > 1 {
		return "(" + strings.Join(parts, " | ") + ")"
	}
	return strings.Join(parts, "")
}

// Plain is Class for text outside of JSON.
func Plain(ranges []rune) string {
	if chars := within(ranges, []rune{1, surrogates - 1, afterSurrogates, unicode.MaxRune}); chars != "" {
		return "[" + chars + "]"
	}
	return ""
}

// within returns the intersection of two lists of ranges, as the content of a class.
func within(a, b []rune) string {
	var out strings.Builder
	for x := range slices.Chunk(a, 2) {
		for y := range slices.Chunk(b, 2) {
			switch first, last := max(x[0], y[0]), min(x[1], y[1]); {
			case first == last:
				out.WriteString(code(first))
			case first < last:
				out.WriteString(code(first) + "-" + code(last))
			}
		}
	}
	return out.String()
}
