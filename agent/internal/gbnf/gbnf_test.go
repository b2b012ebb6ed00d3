package gbnf

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestImport(t *testing.T) {
	const schema = `root ::= "{" space "\"a\":" a-kv space "}"
a-kv ::= "a-kv" [a-kv"] string{0,15} | other
other ::= root?
string ::= "\"" char* "\""
char ::= [^"]
space ::= | " " | "\n"{1,2} [ \t]{0,20}
`
	g := New(AnySpacing)
	for _, prefix := range []string{"x-", "y-"} {
		root, err := g.Import(prefix, schema)
		if err != nil || root != prefix+"root" {
			t.Fatalf("root %q, %v", root, err)
		}
	}
	g.Add("root", "x-root | y-root")
	want := `root ::= x-root | y-root
x-root ::= "{" space "\"a\":" x-a-kv space "}"
x-a-kv ::= "a-kv" [a-kv"] string{0,15} | x-other
x-other ::= x-root?
string ::= "\"" char* "\""
char ::= ` + JSONChar + `
space ::= " "?
y-root ::= "{" space "\"a\":" y-a-kv space "}"
y-a-kv ::= "a-kv" [a-kv"] string{0,15} | y-other
y-other ::= y-root?
`
	if diff := cmp.Diff(want, g.String()); diff != "" {
		t.Error(diff)
	}
	for name, text := range map[string]string{"no root": "a ::= b", "no rule": "hello"} {
		if _, err := New(AnySpacing).Import("x", text); err == nil {
			t.Errorf("%s must be an error", name)
		}
	}
}

// TestDumpsSpacing: places of white space become one space or none by the tokens
// beside them, and nothing that only looks like such a place is touched.
func TestDumpsSpacing(t *testing.T) {
	for rule, c := range map[string]struct{ body, want string }{
		"members and their separators": {
			`"{" space "\"a\"" space ":" space a ( "," space "\"b\"" space ":" space b )? space "}"`,
			`"{"  "\"a\""  ":" " " x-a ( "," " " "\"b\""  ":" " " x-b )?  "}"`,
		},
		"an empty object":                 {`"{" space "}"`, `"{"  "}"`},
		"two places with nothing between": {`"[" space  space "]"`, `"["    "]"`},
		"elements":                        {`"[" space (a ("," space a)*)? space "]"`, `"["  (x-a ("," " " x-a)*)?  "]"`},
		"a name of punctuation":           {`"\":\"" space ":" space a`, `"\":\""  ":" " " x-a`},
		"the word in literals, classes and longer names": {
			`"space" [space ":"] space-1 a-space "\"space\"" space ":" space a`,
			`"space" [space ":"] x-space-1 x-a-space "\"space\""  ":" " " x-a`,
		},
		"literals of several characters": {`"{\"a\":" a ","`, `"{\"a\":" x-a ","`},
	} {
		t.Run(rule, func(t *testing.T) {
			g := New(DumpsSpacing)
			text := "root ::= " + c.body + "\na ::= [0-9]\nb ::= a\nspace-1 ::= a\na-space ::= a\nspace ::= | \" \"\n"
			if _, err := g.Import("x-", text); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, g.bodies["x-root"]); diff != "" {
				t.Error(diff)
			}
			if _, ok := g.bodies[spaceRule]; ok {
				t.Error("the rule space is not used, and yet there")
			}
		})
	}
	for rule, body := range map[string]string{
		"beside no JSON token": `"a" space "b"`,
		"alone":                `space`,
		"repeated":             `"{" space* "}"`,
		"as an option":         `"," space? "1"`,
	} {
		if _, err := New(DumpsSpacing).Import("x-", "root ::= "+body+"\nspace ::= \" \"?"); err == nil {
			t.Errorf("white space %s must be an error", rule)
		}
	}
}

func TestImportKeepsDifferentSharedRulesApart(t *testing.T) {
	g := New(AnySpacing)
	for i, body := range []string{"[0-9]", "[1-9]"} {
		if _, err := g.Import(fmt.Sprintf("p%d-", i), "root ::= integer\ninteger ::= "+body); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"p0-root ::= integer\n", "integer ::= [0-9]\n", "p1-root ::= p1-integer\n", "p1-integer ::= [1-9]\n"} {
		if !strings.Contains(g.String(), want) {
			t.Errorf("%s lacks %s", g, want)
		}
	}
}

func TestLiteral(t *testing.T) {
	if got, want := Literal("a\"\\\n\r\té\x01"), `"a\"\\\n\r\té\x01"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestTextAgainstSearch holds the automaton of a text against plain searching,
// on random texts over the characters that matter.
func TestTextAgainstSearch(t *testing.T) {
	for _, text := range []Text{
		{Forbidden: []string{"<a>", "</a>", "<ab>"}},
		{Forbidden: []string{"<a>", "aab", "ba"}, NonBlank: true},
		{Forbidden: []string{"<a>"}, NonBlank: true, NotFirst: "/b"},
		{Until: "</a>"},
		{Until: "\n</a>", Forbidden: []string{"</a>"}, NonBlank: true},
		{Until: "aab", Forbidden: []string{"<a>"}},
	} {
		g := New(AnySpacing)
		g.AddText("x", text)
		rng := rand.New(rand.NewPCG(1, 2))
		accepted := 0
		for range 4000 {
			var b strings.Builder
			for range rng.IntN(9) {
				b.WriteByte("<a>/b \n"[rng.IntN(7)])
			}
			s := b.String()
			if text.Until != "" && rng.IntN(2) == 0 {
				s += text.Until
			}
			got, want := matches(t, g, "x", s), text.search(s)
			if got != want {
				t.Fatalf("%+v: %q is matched: %t, want %t in\n%s", text, s, got, want, g)
			}
			if got {
				accepted++
			}
		}
		if accepted < 100 {
			t.Errorf("%+v: only %d texts were admitted: the test shows little", text, accepted)
		}
	}
}

// search is what a Text means, the slow way.
func (t Text) search(s string) bool {
	if t.NonBlank && (s == "" || strings.ContainsAny(s[:1], " \t\r\n")) {
		return false
	}
	if s != "" && strings.Contains(t.NotFirst, s[:1]) {
		return false
	}
	body := s
	if t.Until != "" {
		at := strings.Index(s, t.Until)
		if at < 0 || at+len(t.Until) != len(s) {
			return false
		}
		body = s[:len(s)-1] // what completes the end may complete a forbidden string too
	}
	for _, f := range t.Forbidden {
		if strings.Contains(body, f) {
			return false
		}
	}
	return true
}

var alternative = regexp.MustCompile(`^\[((?:\\.|[^\]\\])*)\](?: (\S+))?$`)

// matches runs a grammar whose rules are a class and a next rule each.
func matches(t *testing.T, g *Grammar, rule, s string) bool {
	body := g.bodies[rule]
	if _, ok := g.bodies[body]; ok {
		return matches(t, g, body, s)
	}
	if s == "" {
		return strings.HasPrefix(body, "| ")
	}
	for alt := range strings.SplitSeq(strings.TrimPrefix(body, "| "), " | ") {
		m := alternative.FindStringSubmatch(alt)
		if m == nil {
			t.Fatalf("no alternative: %q", alt)
		}
		ok, err := regexp.MatchString(`^(?s:[`+m[1]+`])`, s)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			if m[2] == "" {
				return s[1:] == ""
			}
			return matches(t, g, m[2], s[1:])
		}
	}
	return false
}
