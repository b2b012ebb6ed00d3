// Package pattern turns the regular expressions of JSON schemas, lengths and names into
// automata of the strings that satisfy them together.
package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Bounds of a pattern that becomes an automaton, far above what people write: its bytes, and the
// ranges of its classes, of which \p{L} alone has hundreds.
const maxBytes, maxRanges = 4096, 20000

// Compile makes a regular expression of ECMA-262 one of package regexp. \d, \w and \s are the
// ASCII ones, and a dot is no end of a line. What is not regular (look-around, references to
// groups) is an error.
func Compile(pattern string) (*regexp.Regexp, error) {
	text, err := Translate(pattern)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	return re, plainError(err)
}

func parse(pattern string) (*syntax.Prog, error) {
	if len(pattern) > maxBytes {
		return nil, fmt.Errorf("it has %d bytes, at most %d are possible", len(pattern), maxBytes)
	}
	text, err := Translate(pattern)
	if err != nil {
		return nil, err
	}
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

// plainError is the parser's error in the words of this package: its own shows the pattern after
// Translate.
func plainError(err error) error {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case syntax.ErrInvalidPerlOp, syntax.ErrInvalidNamedCapture:
		return errors.New("groups other than (…), (?:…) and (?<name>…), such as look-around, can't be expressed")
	case syntax.ErrInvalidEscape:
		return fmt.Errorf("the escape %s can't be expressed", e.Expr)
	case syntax.ErrInvalidRepeatSize:
		return fmt.Errorf("the repetition %s is more than 1,000 or in the wrong order", e.Expr)
	}
	return fmt.Errorf("%s: %s", e.Code, e.Expr)
}

// Translate writes an expression of ECMA-262 as Go's packages have it, so that the check
// and the grammar mean the same: \u, and a dot, which is no end of a line.
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

// codePoint reads what follows \u: the character, and how many bytes tell it, or 0.
func codePoint(s string) (r rune, n int) {
	if digits, rest, ok := strings.Cut(s, "}"); ok && strings.HasPrefix(digits, "{") {
		x, err := strconv.ParseUint(digits[1:], 16, 32)
		if err != nil || x > unicode.MaxRune || utf16.IsSurrogate(rune(x)) {
			return 0, 0
		}
		return rune(x), len(s) - len(rest)
	}
	unit := func(s string) (rune, bool) {
		if len(s) < 4 {
			return 0, false
		}
		x, err := strconv.ParseUint(s[:4], 16, 16)
		return rune(x), err == nil
	}
	first, ok := unit(s)
	switch {
	case !ok:
		return 0, 0
	case !utf16.IsSurrogate(first):
		return first, 4
	case !strings.HasPrefix(s[4:], `\u`):
		return 0, 0
	}
	second, ok := unit(s[6:])
	if r = utf16.DecodeRune(first, second); !ok || r == unicode.ReplacementChar {
		return 0, 0
	}
	return r, 10
}

// folds are a character and those that differ from it in case alone, as ranges.
func folds(r rune) []rune {
	list := []rune{r, r}
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		list = append(list, f, f)
	}
	slices.Sort(list)
	return list
}

// short are the control characters that JSON has short escapes for.
var short = map[rune]byte{'\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

// code is a character as GBNF escapes it.
func code(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08X`, r)
	}
	return fmt.Sprintf(`\u%04X`, r)
}

// Surrogates are no characters.
const surrogates, afterSurrogates = 0xd800, 0xe000

// rooms are the characters that stand in JSON strings as they are, as ranges.
var rooms = []rune{' ', '"' - 1, '"' + 1, '\\' - 1, '\\' + 1, surrogates - 1, afterSurrogates, unicode.MaxRune}

// Class is the expression of one character of a JSON string that is in some ranges, of which a
// pair is the first and the last character; "" where there is none.
func Class(ranges []rune) string {
	var escapes, low, high strings.Builder // behind a backslash
	for i := 0; i < len(ranges); i += 2 {
		for r := ranges[i]; r <= min(ranges[i+1], '\\'); r++ {
			switch c, ok := short[r]; {
			case ok:
				escapes.WriteByte(c)
			case r == '"':
				escapes.WriteByte('"')
			case r == '\\':
				escapes.WriteString(`\\`)
			case r < 0x10:
				fmt.Fprintf(&low, "%x", r)
			case r < ' ':
				fmt.Fprintf(&high, "%x", r-0x10)
			}
		}
	}
	var parts []string
	for _, c := range []struct{ begin, chars string }{{"", within(ranges, rooms)}, {`"\\" `, escapes.String()}, {`"\\u000" `, low.String()}, {`"\\u001" `, high.String()}} {
		if c.chars != "" {
			parts = append(parts, c.begin+"["+c.chars+"]")
		}
	}
	if len(parts) > 1 {
		return "(" + strings.Join(parts, " | ") + ")"
	}
	return strings.Join(parts, "")
}

// Plain is Class for text that is not JSON.
func Plain(ranges []rune) string {
	if chars := within(ranges, []rune{1, surrogates - 1, afterSurrogates, unicode.MaxRune}); chars != "" {
		return "[" + chars + "]"
	}
	return ""
}

// within is the characters that two lists of ranges have in common, as a class has them.
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
