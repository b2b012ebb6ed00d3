package gbnf

import "testing"

func TestWithoutMarks(t *testing.T) {
	for text, want := range map[string]string{
		"root ::= " + Mark(0) + ` "a" | ` + Mark(63) + ` "b"`: `root ::=  "a" |  "b"`,
		// What only looks like a mark stays.
		`root ::= "` + Mark(1) + `" [` + Mark(2)[2:12] + `] ` + Mark(3): `root ::= "` + Mark(1) + `" [` + Mark(2)[2:12] + `] `,
		"root ::= <[5]> " + Mark(64) + Mark(0):                          "root ::= <[5]> " + Mark(64),
		"root ::= <|end|> " + Mark(4) + "<":                             "root ::= <|end|> <",
		`root ::= "no marks"`:                                           `root ::= "no marks"`,
	} {
		if got := WithoutMarks(text); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}

func TestPlaces(t *testing.T) {
	g := New(AnySpacing)
	g.Add("robot", `"\"arm\""`)
	if _, err := g.Import("x-", `root ::= a "{\"robot\":\"here1\"}" "\"here12\"" robot
a ::= "\"here1\""
robot ::= "x"
`, Place{"here1", "robot"}); err != nil {
		t.Fatal(err)
	}
	for rule, want := range map[string]string{"x-root": `x-a "{\"robot\":" robot "}" "\"here12\"" x-robot`, "x-a": "robot"} {
		if g.bodies[rule] != want {
			t.Errorf("%s ::= %s, want %s", rule, g.bodies[rule], want)
		}
	}
}
