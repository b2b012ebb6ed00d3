//go:build !race

package gbnf

import "testing"

func TestWithoutMarks(t *testing.T) {
	for text, want := range map[string]string{
		"root ::= " + Mark(0) + ` "a" | ` + Mark(63) + ` "b"`: `root ::=  "a" |  "b"`,
		// What only looks like a mark stays.
		`root ::= "` + Mark(1) + `" [` + Mark(2)[2:12] + `] ` + Mark(3):             `root ::= "` + Mark(1) + `" [` + Mark(2)[2:12] + `] `,
		"root ::= <[5]> " + Mark(64) + Mark(0):                                      "root ::= <[5]> " + Mark(64),
		"root ::= <|end|> " + Mark(4) + "<":                                         "root ::= <|end|> <",
		"root ::= " + UnitBegin + ` "{" ` + UnitEnd + `"}"( ` + UnitNext + ` "," )`: `root ::=  "{" "}"(  "," )`,
		"root ::= " + unit(3) + UnitNext:                                            "root ::= " + unit(3),
		`root ::= "no marks"`:                                                       `root ::= "no marks"`,
	} {
		if got := WithoutMarks(text); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}
