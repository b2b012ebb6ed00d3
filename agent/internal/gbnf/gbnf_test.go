//go:build !race

package gbnf

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"agentd/agent/internal/gbnf/gbnftest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLiteral(t *testing.T) {
	if got, want := Literal("a\"\\\n\r\té\x01"), `"a\"\\\n\r\té\x01"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The automaton of a text is compared with plain searching, on random texts over the
// characters that matter.
func TestTextAgreesWithSearch(t *testing.T) {
	for _, text := range []Text{
		{Forbidden: []string{"<a>", "</a>", "<ab>"}},
		{Forbidden: []string{"<a>", "aab", "ba"}, NonBlank: true},
		{Forbidden: []string{"<a>"}, NonBlank: true, NotFirst: "/b"},
		{Forbidden: []string{"<a>"}, NonBlank: true, NotBegin: starts("ba"+Gap+"/", "/"+Word+" b", "bb")},
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

func TestSpacingSaysWhichWhiteSpaceIsAdmitted(t *testing.T) {
	for text, want := range map[string][3]bool{ // by any spacing, that of json.dumps, and lines
		`{"a": [1, 2]}`:       {true, true, true},
		`{"a":[1,2]}`:         {true, false, true},
		`{ "a" : [ 1 , 2 ] }`: {false, false, false},
		"{\n    \"a\": [\n        1,\n        2\n    ]\n}": {false, false, true},
		"{\n\n\"a\": 1}": {false, false, false},
		"{\n" + strings.Repeat(" ", 25) + `"a": 1}`: {false, false, false},
		"{\t\"a\": 1}": {false, false, false},
	} {
		for i, spacing := range []Spacing{AnySpacing, DumpsSpacing, LinesSpacing} {
			g := New(spacing)
			g.Add("root", g.JSON(AnyValue))
			read, err := gbnftest.Parse(g.String())
			if err != nil {
				t.Fatal(err)
			}
			if got := read.Admits("root", text); got != want[i] {
				t.Errorf("%q with spacing %d: %t, want %t", text, spacing, got, want[i])
			}
		}
	}
}

func starts(list ...string) *Starts {
	s := new(Starts)
	for _, text := range list {
		s.Add(text)
	}
	return s
}

func TestStartsSayWhatMayStillBecomeOne(t *testing.T) {
	s := starts("`"+Word+"\n{"+Gap+`"é"`, "go(")
	for text, want := range map[string]bool{
		"": true, "`": true, "`json\n{ \n\t\"é": true, "`json\n{\"é\" and more": true, "go": true, "go(x": true,
		"`a=b": false, "`json\n {": false, "gone": false, "hi": false,
	} {
		if got := s.Within(text); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
	if new(Starts).Within("x") {
		t.Error("an empty set has a text")
	}
}

func TestStartsNarrowWhatFollowsAWord(t *testing.T) {
	s := starts("`"+Word+"\n"+Gap+"["+Gap+"{x", "`"+Word+"\n"+Gap+"{")
	s.After("`", "js", "[", "{]")
	g := New(AnySpacing)
	g.AddText("root", Text{NonBlank: true, NotBegin: s})
	read, err := gbnftest.Parse(g.String())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		text           string
		admits, within bool
	}{
		{"`js\n[{y", true, false}, {"`js\n [ ]", true, false}, {"`js\n[ {", true, true}, {"`js\n[{x", false, true},
		{"`js\n[1", false, false}, {"`js\ny", false, false}, {"`js\n{", false, false}, {"`js\n", false, true},
		{"`jsx\ny", true, false}, {"`jx\n[1", true, false}, {"`j\n{", false, true}, {"`jsx\n[{x", false, true},
		{"`\ny", true, false}, {"`a\n{", false, true}, {"`j=s", true, false}, {"`j", true, true},
	} {
		if got := read.Admits("root", test.text); got != test.admits {
			t.Errorf("%q is admitted: %t, want %t", test.text, got, test.admits)
		}
		if got := s.Within(test.text); got != test.within {
			t.Errorf("%q may become a start: %t, want %t", test.text, got, test.within)
		}
	}
}

// search matches a Text by plain searching.
func (t Text) search(s string) bool {
	if t.NonBlank && (s == "" || strings.ContainsAny(s[:1], " \t\r\n")) {
		return false
	}
	if s != "" && strings.Contains(t.NotFirst, s[:1]) {
		return false
	}
	if t.NotBegin != nil && regexp.MustCompile(`^(ba[ \n]*/|/[ab]* b|bb)`).MatchString(s) {
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

// hexes are the escapes of four digits.
var hexes = regexp.MustCompile(`\\u([0-9A-F]{4})`)

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
		ok, err := regexp.MatchString(`^(?s:[`+hexes.ReplaceAllString(m[1], `\x{$1}`)+`])`, s)
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
