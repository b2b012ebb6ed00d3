package pattern

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// accepts runs an automaton.
func (a Automaton) accepts(s string) bool {
	if len(a) == 0 {
		return false
	}
	at := map[int]bool{0: true}
	for _, r := range s {
		next := map[int]bool{}
		for i := range at {
			for _, e := range a[i].Edges {
				for k := 0; k < len(e.Ranges); k += 2 {
					if e.Ranges[k] <= r && r <= e.Ranges[k+1] {
						next[e.To] = true
					}
				}
			}
		}
		at = next
	}
	for i := range at {
		if a[i].Accept {
			return true
		}
	}
	return false
}

// Automata are compared with the parts that they are made of.
func TestAutomataAgreeWithRegexp(t *testing.T) {
	exprs := []string{`a`, `^a`, `b$`, `^[ab]*$`, `(a|bc)+`, `^$`, `^a{2,3}`, `é|"`, `(?i)^B`, `.c`, `^(a*b*)*$`, `\d`, `$`}
	rng := rand.New(rand.NewPCG(3, 4))
	accepted := 0
	for range 400 {
		l := Language{Min: rng.IntN(3), Max: rng.IntN(7) - 1}
		for _, list := range []*[]string{&l.Match, &l.Avoid} {
			for range rng.IntN(3) {
				*list = append(*list, exprs[rng.IntN(len(exprs))])
			}
		}
		if rng.IntN(2) == 0 {
			l.Except = []string{"a", "ab", ""}
		}
		limit := 2000
		if len(l.Match) == 1 && len(l.Avoid) == 0 && rng.IntN(2) == 0 { // nondeterministic
			l.Min, l.Max, l.Except, limit = 0, -1, nil, 0
		}
		a, err := l.Automaton(limit)
		if err != nil {
			t.Fatalf("%v for %+v", err, l)
		}
		for range 200 {
			var b strings.Builder
			for range rng.IntN(6) {
				b.WriteRune([]rune("abc1é\"\nBx")[rng.IntN(9)])
			}
			s := b.String()
			n := utf8.RuneCountInString(s)
			want := n >= l.Min && (l.Max < 0 || n <= l.Max) && !slices.Contains(l.Except, s)
			for i, expr := range slices.Concat(l.Match, l.Avoid) {
				translated, err := Translate(expr)
				if err != nil {
					t.Fatal(err)
				}
				want = want && regexp.MustCompile(translated).MatchString(s) == (i < len(l.Match))
			}
			if a.accepts(s) != want {
				t.Fatalf("%+v: %q is accepted: %t", l, s, !want)
			}
			if want {
				accepted++
			}
		}
	}
	if accepted < 3000 {
		t.Errorf("only %d strings were accepted: the test shows little", accepted)
	}
}

func TestAutomataAreBounded(t *testing.T) {
	for name, l := range map[string]Language{
		"too many states":       {Match: []string{`[ab]*a[ab]{12}c`}, Max: 100},
		"too many instructions": {Match: []string{`([ab]*a[ab]{12}c){200}`}, Max: -1},
		"too long":              {Match: []string{strings.Repeat("a", maxBytes+1)}, Max: -1},
		"too many ranges":       {Match: []string{strings.Repeat(`\p{L}`, 100)}, Max: -1},
		"word boundaries":       {Match: []string{`\ba`}, Max: -1},
		"look-ahead":            {Match: []string{`(?=a)`}, Max: -1},
	} {
		if _, err := l.Automaton(300); err == nil {
			t.Errorf("%s must be an error", name)
		}
	}
	if a, err := (Language{Match: []string{"^a"}, Avoid: []string{"a"}, Max: -1}).Automaton(300); err != nil || len(a) > 0 {
		t.Errorf("%v, %v", a, err)
	}
}
