// Package pattern turns the regular expressions of JSON schemas into grammars of JSON
// strings, and what several of them, lengths and names leave of all strings into automata.
package pattern

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Bounds of a pattern, far above what people write: its bytes, and the ranges of its
// classes, of which \p{L} alone has hundreds.
const maxBytes, maxRanges = 4096, 20000

// Rule gives the GBNF expression of what stands between the quotation marks of the JSON
// strings that match a regular expression of ECMA-262, as JSON Schema means it: the match
// may be anywhere in the string unless ^ and $ hold it at the ends. Characters have one
// spelling each: as they are, or as Python's json.dumps escapes them if JSON wants that.
//
// \d, \w and \s are the ASCII ones, and a dot is no end of a line. What is not regular
// (look-around, references to groups), word boundaries, and ^ and $ in the middle are
// errors.
func Rule(pattern string) (string, error) {
	tree, err := parse(pattern)
	if err != nil {
		return "", err
	}
	if _, ok := repeats(tree); !ok {
		return "", errors.New("it repeats what can be empty, or too much")
	}
	return whole(tree, true, true)
}

func parse(pattern string) (*syntax.Regexp, error) {
	if len(pattern) > maxBytes {
		return nil, fmt.Errorf("it has %d bytes, at most %d are possible", len(pattern), maxBytes)
	}
	text, err := Translate(pattern)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, told(err)
	}
	if n := ranges(tree); n > maxRanges {
		return nil, fmt.Errorf("its classes have %d ranges of characters, at most %d are possible", n, maxRanges)
	}
	return tree, nil
}

// maxWritten bounds what a repetition is written out to: llama.cpp counts the groups in it.
const maxWritten = 1500

// repeats counts the groups of an expression, those of repetitions each time, and tells
// whether all of its repetitions can be written: nothing that can be empty is repeated.
func repeats(re *syntax.Regexp) (groups int, ok bool) {
	groups = 1
	for _, sub := range re.Sub {
		n, ok := repeats(sub)
		if !ok {
			return 0, false
		}
		groups += n
	}
	switch re.Op {
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		sub := re.Sub[0]
		for sub.Op == syntax.OpCapture || re.Op != syntax.OpRepeat && marks[sub.Op] != "" {
			sub = sub.Sub[0]
		}
		if nullable(sub) {
			return 0, false
		}
	}
	if re.Op == syntax.OpRepeat {
		groups *= 4 * max(re.Min, re.Max, 1)
		return groups, groups <= 4*maxWritten
	}
	return groups, true
}

// nullable tells whether an expression matches the empty string.
func nullable(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return false
	case syntax.OpCapture, syntax.OpPlus:
		return nullable(re.Sub[0])
	case syntax.OpRepeat:
		return re.Min == 0 || nullable(re.Sub[0])
	case syntax.OpConcat:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !nullable(sub) })
	case syntax.OpAlternate:
		return slices.ContainsFunc(re.Sub, nullable)
	}
	return true
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

// told is the parser's error in the words of this package: its own shows the pattern after
// translate.
func told(err error) error {
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

// anything is any text: every character as it is, or escaped. An escaped surrogate is no
// character, and strict readers refuse one that stands alone.
const anything = `([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" ([0-9a-cA-Ce-fE-F] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2})))*`

// whole is the expression of a part that begins the string, if start is set, so that
// anything may stand before it, and ends it, if end is set.
func whole(re *syntax.Regexp, start, end bool) (string, error) {
	if !start && !end {
		return part(re)
	}
	switch re.Op {
	case syntax.OpBeginText:
		if start {
			return around(`""`, false, end), nil
		}
	case syntax.OpEndText:
		if end {
			return around(`""`, start, false), nil
		}
	case syntax.OpCapture:
		return whole(re.Sub[0], start, end)
	case syntax.OpAlternate:
		return each(re.Sub, " | ", func(_ int, sub *syntax.Regexp) (string, error) { return whole(sub, start, end) })
	case syntax.OpConcat:
		last := len(re.Sub) - 1
		return each(re.Sub, " ", func(i int, sub *syntax.Regexp) (string, error) { return whole(sub, start && i == 0, end && i == last) })
	}
	expr, err := part(re)
	return around(expr, start, end), err
}

// around puts what may stand beside an expression there.
func around(expr string, before, after bool) string {
	var parts []string
	if before {
		parts = append(parts, anything)
	}
	parts = append(parts, expr)
	if after {
		parts = append(parts, anything)
	}
	return group(parts, " ")
}

// part is the expression of a part in the middle.
func part(re *syntax.Regexp) (string, error) {
	switch re.Op {
	case syntax.OpNoMatch:
		return "", errors.New("nothing matches a part of it")
	case syntax.OpEmptyMatch:
		return `""`, nil
	case syntax.OpLiteral:
		return literal(re.Rune, re.Flags&syntax.FoldCase != 0), nil
	case syntax.OpCharClass:
		return class(re.Rune)
	case syntax.OpAnyCharNotNL:
		return class([]rune{0, '\n' - 1, '\n' + 1, '\r' - 1, '\r' + 1, '\u2027', '\u202a', unicode.MaxRune})
	case syntax.OpAnyChar:
		return class([]rune{0, unicode.MaxRune})
	case syntax.OpCapture:
		return part(re.Sub[0])
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		return starred(re.Sub[0], re.Op)
	case syntax.OpRepeat:
		switch {
		case re.Max < 0:
			return repeated(re.Sub[0], fmt.Sprintf("{%d,}", re.Min))
		case re.Max == 0:
			return `""`, nil
		}
		return repeated(re.Sub[0], fmt.Sprintf("{%d,%d}", re.Min, re.Max))
	case syntax.OpConcat:
		return each(re.Sub, " ", func(_ int, sub *syntax.Regexp) (string, error) { return part(sub) })
	case syntax.OpAlternate:
		return each(re.Sub, " | ", func(_ int, sub *syntax.Regexp) (string, error) { return part(sub) })
	case syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return "", errors.New(`word boundaries (\b, \B) can't be expressed`)
	}
	return "", errors.New("^ can only stand at its beginning and $ at its end")
}

var marks = map[syntax.Op]string{syntax.OpStar: "*", syntax.OpPlus: "+", syntax.OpQuest: "?"}

// starred is a part any number of times, at least once, or at most once. Of what is
// repeated so inside of groups again one is made, since llama.cpp refuses the repetition
// of what can be empty.
func starred(re *syntax.Regexp, op syntax.Op) (string, error) {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	if marks[re.Op] != "" {
		if re.Op != op {
			op = syntax.OpStar
		}
		return starred(re.Sub[0], op)
	}
	return repeated(re, marks[op])
}

func repeated(re *syntax.Regexp, times string) (string, error) {
	expr, err := part(re)
	return "(" + expr + ")" + times, err
}

// each joins the expressions of several parts.
func each(list []*syntax.Regexp, by string, expr func(i int, re *syntax.Regexp) (string, error)) (string, error) {
	var parts []string
	for i, re := range list {
		s, err := expr(i, re)
		if err != nil {
			return "", err
		}
		parts = append(parts, s)
	}
	return group(parts, by), nil
}

// group is expressions as one. In a sequence the empty ones are left out.
func group(parts []string, by string) string {
	if by == " " {
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == `""` })
	}
	switch len(parts) {
	case 0:
		return `""`
	case 1:
		return parts[0]
	}
	return "(" + strings.Join(parts, by) + ")"
}

// literal is a text, with fold in upper and lower case.
func literal(text []rune, fold bool) string {
	var parts []string
	var run strings.Builder
	flush := func() {
		if run.Len() > 0 {
			parts = append(parts, `"`+run.String()+`"`)
			run.Reset()
		}
	}
	for _, r := range text {
		if others := folds(r); fold && len(others) > 2 {
			flush()
			expr, _ := class(others)
			parts = append(parts, expr)
			continue
		}
		run.WriteString(spelled(r))
	}
	flush()
	return group(parts, " ")
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

// spelled is a character of a JSON string inside a literal of GBNF.
func spelled(r rune) string {
	switch c, ok := short[r]; {
	case ok:
		return `\\` + string(c)
	case r == '"':
		return `\\\"`
	case r == '\\':
		return `\\\\`
	case r < ' ':
		return fmt.Sprintf(`\\u%04x`, r)
	case r >= 0x7f:
		return code(r)
	}
	return string(r)
}

// code is a character as GBNF escapes it.
func code(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08X`, r)
	}
	return fmt.Sprintf(`\u%04X`, r)
}

// Surrogates are no characters.
const surrogates, afterSurrogates = 0xd800, 0xe000

// Class is the expression of one character of a JSON string that is in some ranges, of which a
// pair is the first and the last character. The error says that there is none.
func Class(ranges []rune) (string, error) { return class(ranges) }

// Plain is Class for text that is not JSON.
func Plain(ranges []rune) (string, error) {
	var b strings.Builder
	for i := 0; i < len(ranges); i += 2 {
		for _, room := range [][2]rune{{1, surrogates - 1}, {afterSurrogates, unicode.MaxRune}} {
			if a, z := max(ranges[i], room[0]), min(ranges[i+1], room[1]); a <= z {
				b.WriteString(code(a) + "-" + code(z))
			}
		}
	}
	if b.Len() == 0 {
		return "", errors.New("nothing matches a part of it")
	}
	return "[" + b.String() + "]", nil
}

// class is one character of some ranges, of which a pair is the first and the last one.
func class(ranges []rune) (string, error) {
	var plain, low, high strings.Builder
	var parts []string
	var escapes strings.Builder // behind a backslash
	for i := 0; i < len(ranges); i += 2 {
		first, last := ranges[i], ranges[i+1]
		for r := first; r <= min(last, '\\'); r++ {
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
		for _, room := range [][2]rune{{' ', '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, surrogates - 1}, {afterSurrogates, unicode.MaxRune}} {
			if a, z := max(first, room[0]), min(last, room[1]); a <= z {
				plain.WriteString(code(a) + "-" + code(z))
			}
		}
	}
	for _, c := range []struct{ begin, chars string }{{"", plain.String()}, {`"\\" `, escapes.String()}, {`"\\u000" `, low.String()}, {`"\\u001" `, high.String()}} {
		if c.chars != "" {
			parts = append(parts, c.begin+"["+c.chars+"]")
		}
	}
	if len(parts) == 0 {
		return "", errors.New("nothing matches a part of it")
	}
	return group(parts, " | "), nil
}
