package pattern

import (
	"strings"
	"testing"
)

func TestRule(t *testing.T) {
	any := anything
	for _, tc := range []struct{ rule, pattern, want string }{
		{"a text between the ends", `^abc$`, `"abc"`},
		{"a text at the beginning", `^abc`, `("abc" ` + any + `)`},
		{"a text at the end", `abc$`, `(` + any + ` "abc")`},
		{"a text anywhere", `abc`, `(` + any + ` "abc" ` + any + `)`},
		{"nothing is demanded", ``, `(` + any + ` ` + any + `)`},
		{"only the beginning is held", `^`, any},
		{"only the empty string", `^$`, `""`},
		{"ends of alternatives are their own", `^a|bc$`, `(("a" ` + any + `) | (` + any + ` "bc"))`},
		{"ends inside a group", `^(?:ab$|cd)`, `("ab" | ("cd" ` + any + `))`},
		{"digits", `^\d$`, `[\u0030-\u0039]`},
		{"repetitions", `^a*b+c?d{2}e{2,}f{2,3}$`, `(("a")* ("b")+ ("c")? ("d"){2,2} ("e"){2,} ("f"){2,3})`},
		{"a repetition of a repetition is one", `^(a*)*((b+)?)+$`, `(("a")* ("b")*)`},
		{"not at all", `^ab{0}$`, `"a"`},
		{"marks of JSON are escaped", `^"\\/$`, `"\\\"\\\\/"`},
		{"control characters are escaped as json.dumps does", `^\t\x01\x1f\x7f$`, `"\\t\\u0001\\u001f\u007F"`},
		{"a dot is neither a quotation mark nor an end of line as it is", `^.$`,
			`([\u0020-\u0021\u0023-\u005B\u005D-\u2027\u202A-\uD7FF\uE000-\U0010FFFF] | "\\" [btf"\\] | "\\u000" [01234567bef] | "\\u001" [0123456789abcdef])`},
		{"all others", `^[^\x00-\x{10fffd}]$`, `[\U0010FFFE-\U0010FFFF]`},
		{"escapes of JavaScript", `^\u00e9\ud83d\ude00\u{1F600}\/$`, `"\u00E9\U0001F600\U0001F600/"`},
		{"escapes inside a class", `^[\u00e9\-\]]$`, `[\u002D-\u002D\u005D-\u005D\u00E9-\u00E9]`},
		{"a backslash before a u", `^\\u00e9$`, `"\\\\u00e9"`},
		{"upper and lower case", `^(?i)a1k$`, `([\u0041-\u0041\u0061-\u0061] "1" [\u004B-\u004B\u006B-\u006B\u212A-\u212A])`},
		{"groups with a name", `^(?<year>\d{4})$`, `([\u0030-\u0039]){4,4}`},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if got, err := Rule(tc.pattern); err != nil || got != tc.want {
				t.Errorf("%s gave %v\n%s, want\n%s", tc.pattern, err, got, tc.want)
			}
		})
	}
}

func TestPatternsWithoutARule(t *testing.T) {
	for _, tc := range []struct{ rule, pattern, want string }{
		{"look-ahead", `^(?=a)`, "look-around"},
		{"look-behind", `(?<!a)b`, "look-around"},
		{"a reference to a group", `^(a)\1$`, `\1`},
		{"a word boundary", `\bab\b`, `\b`},
		{"an end in the middle", `a$b`, "beginning"},
		{"a repeated beginning", `(^a)*`, "beginning"},
		{"a missing parenthesis", `^(a$`, "missing closing )"},
		{"nothing to repeat", `*a`, "missing argument"},
		{"bounds in the wrong order", `^a{3,2}$`, "{3,2}"},
		{"too many times", `^a{2000}$`, "1,000"},
		{"half a character", `^\ud83d$`, `\u`},
		{"no digits", `^\uzzzz$`, `\u`},
		{"a character that there is not", `^\u{110000}$`, `\u`},
		{"an escape of another language", `^\Qa\E$`, `\Q`},
		{"a class without an end", `^[a$`, "missing closing ]"},
		{"too long", strings.Repeat("a", maxBytes+1), "4096"},
		{"too many ranges", strings.Repeat(`\p{L}`, 100), "ranges"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if got, err := Rule(tc.pattern); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q: %v, want one about %s; rule %s", tc.pattern, err, tc.want, got)
			}
		})
	}
}
