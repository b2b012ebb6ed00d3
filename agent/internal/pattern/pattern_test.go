package pattern

import (
	"strings"
	"testing"
)

func TestClassSpellsCharactersOfJSONStrings(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ranges []rune
		want   string
	}{
		{"one character", []rune{'a', 'a'}, `[\u0061]`},
		{"a range", []rune{'0', '9'}, `[\u0030-\u0039]`},
		{"characters that JSON escapes", []rune{0, 1, '\t', '\t', '"', '"', '\\', '\\'}, `("\\" [t"\\] | "\\u000" [01])`},
		{"all characters", []rune{0, 0x10ffff}, `([\u0020-\u0021\u0023-\u005B\u005D-\uD7FF\uE000-\U0010FFFF] | "\\" [btnfr"\\] | "\\u000" [01234567bef] | "\\u001" [0123456789abcdef])`},
		{"surrogates only", []rune{surrogates, surrogates}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Class(tc.ranges); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestCompileReadsECMAScript(t *testing.T) {
	for _, tc := range []struct{ name, pattern, yes, no string }{
		{"escapes of code points", `^\u00e9\ud83d\ude00\u{1F600}\/$`, "é😀😀/", "é"},
		{"escapes inside a class", `^[\u00e9\-\]]$`, "]", "a"},
		{"a backslash before a u", `^\\u00e9$`, `\u00e9`, "é"},
		{"a dot is no end of line", `^.$`, "a", "\u2028"},
		{"digits are ASCII", `^\d$`, "5", "٥"},
		{"look-ahead at the beginning", `^(?=.*\d)[a-z\d]+$`, "a1", "ab"},
		{"negative look-ahead at the beginning", `^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$`, "-1.5", "-."},
		{"several look-aheads before alternatives", `^(?!\.|\))(?=.\|?)(a|b\||\)|\.)*$`, "ab|.)", ".a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			re, err := Compile(tc.pattern)
			if err != nil || !re.MatchString(tc.yes) || re.MatchString(tc.no) {
				t.Errorf("%v, %v", re, err)
			}
		})
	}
}

func TestUnusablePatternsAreExplained(t *testing.T) {
	for _, tc := range []struct{ name, pattern, want string }{
		{"look-ahead in the middle", `^a(?=b)`, "look-around"},
		{"look-ahead in one of two alternatives", `^(?=a)b|c`, "look-around"},
		{"look-ahead before alternatives in parentheses of classes", `^(?=a)[(]b|c[)]`, "look-around"},
		{"look-around in a look-ahead", `^(?=(?!a)b)b`, "look-around"},
		{"look-behind", `(?<!a)b`, "look-around"},
		{"a reference to a group", `^(a)\1$`, `\1`},
		{"a missing parenthesis", `^(a$`, "missing closing )"},
		{"nothing to repeat", `*a`, "missing argument"},
		{"bounds in the wrong order", `^a{3,2}$`, "{3,2}"},
		{"too many times", `^a{2000}$`, "1,000"},
		{"half a character", `^\ud83d$`, `\u`},
		{"no digits", `^\uzzzz$`, `\u`},
		{"a character that there is not", `^\u{110000}$`, `\u`},
		{"an escape of another language", `^\Qa\E$`, `\Q`},
		{"a class without an end", `^[a$`, "missing closing ]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Compile(tc.pattern); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q: %v, want one about %s", tc.pattern, err, tc.want)
			}
		})
	}
}
