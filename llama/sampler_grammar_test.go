//go:build !race

package llama

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"agentd/llama/synth"
)

// The lazy check must choose the same token as masking the whole row and taking the best.
func TestConstrainedGreedyIsTheBestAdmittedToken(t *testing.T) {
	m := shared(t, synth.Qwen3)
	v := m.Vocab()
	for _, gbnf := range []string{`root ::= "yes" | "no"`, `root ::= [0-9]+`, `root ::= [^a]*`, `root ::= "\"" [^"\\]* "\""`} {
		s := newSampler(t, m, SamplerConfig{Grammar: gbnf})
		for step := range uint64(6) {
			row := randomRow(m, 100+step)
			probe, err := s.Clone()
			if err != nil {
				t.Fatal(err)
			}
			admitted := func(tok Token) bool {
				c, err := probe.Clone()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				return c.Accept(tok) == nil
			}
			got, err := s.Sample(row)
			if errors.Is(err, ErrGrammarDead) || err == nil && v.IsEOG(got) {
				probe.Close()
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if !admitted(got) {
				t.Fatalf("%s: %q is not admitted", gbnf, v.Piece(got, true))
			}
			for i := range row { // no admitted token is better
				if row[i] > row[got] && admitted(Token(i)) {
					t.Fatalf("%s, step %d: %q was taken, %q is better", gbnf, step, v.Piece(got, true), v.Piece(Token(i), true))
				}
			}
			probe.Close()
		}
	}
}

// TestConstrainedDrawsHaveTheOddsOfAdmittedTokens, whether many tokens
// or few may come.
func TestConstrainedDrawsHaveTheOddsOfAdmittedTokens(t *testing.T) {
	m := shared(t, synth.Qwen3)
	v := m.Vocab()
	row := make([]float32, v.Size())
	for i := range row {
		row[i] = -30
	}
	logits := map[string]float32{"a": 3, "b": 2, "c": 1.5, "ab": 2.5, "d": 0, "\"": 3, "1": 1, "2": 0.5}
	for text, x := range logits {
		row[tokenize(t, m, text)[0]] = x
	}
	const draws, temperature = 3000, 0.8
	for gbnf, admitted := range map[string][]string{
		`root ::= [^a"]*`:           {"b", "c", "d", "1", "2"},
		`root ::= "b" | [0-9]+ "c"`: {"b", "1", "2"},
		`root ::= [c-z]+`:           {"c", "d"},
	} {
		sum := 0.0
		for _, text := range admitted {
			sum += math.Exp(float64(logits[text]) / temperature)
		}
		first := newSampler(t, m, SamplerConfig{Temperature: temperature, Grammar: gbnf})
		counts := map[string]int{}
		for seed := range uint32(draws) {
			s, err := first.CloneSeed(seed)
			if err != nil {
				t.Fatal(err)
			}
			token, err := s.Sample(row)
			s.Close()
			if err != nil {
				t.Fatal(err)
			}
			counts[string(v.Piece(token, true))]++
		}
		for _, text := range admitted {
			p := math.Exp(float64(logits[text])/temperature) / sum
			want, sigma := p*draws, math.Sqrt(p*(1-p)*draws)
			if got := float64(counts[text]); math.Abs(got-want) > 4*sigma+1 {
				t.Errorf("%s: %q came %v times, want %.0f with a deviation of %.0f", gbnf, text, got, want, sigma)
			}
			delete(counts, text)
		}
		for text, n := range counts {
			if n > 1 { // all others together have a probability of 1e-8
				t.Errorf("%s: %q came %d times", gbnf, text, n)
			}
		}
	}
}

func TestConstrainedTextIsInTheLanguage(t *testing.T) {
	m := shared(t, synth.Qwen3)
	v := m.Vocab()
	const gbnf = `root ::= "{\"n\": " num ", \"s\": \"" [a-z]{1,4} "\"}"
num ::= "-"? [0-9]{1,3}`
	for _, cfg := range []SamplerConfig{{}, {Temperature: 1, TopK: 20}, {Temperature: 2, TopP: 0.9}, {Temperature: 1}} {
		cfg.Grammar, cfg.Seed = gbnf, 11
		s := newSampler(t, m, cfg)
		var tokens []Token
		for step := range uint64(40) {
			tok := mustSample(t, s, randomRow(m, 1000+step))
			if v.IsEOG(tok) {
				break
			}
			tokens = append(tokens, tok)
		}
		text := v.Detokenize(tokens, true)
		rest, ok := strings.CutPrefix(text, `{"n": `)
		num, rest, ok2 := strings.Cut(rest, `, "s": "`)
		word, ok3 := strings.CutSuffix(rest, `"}`)
		digits := strings.TrimPrefix(num, "-")
		if !ok || !ok2 || !ok3 || len(digits) < 1 || len(digits) > 3 || strings.Trim(digits, "0123456789") != "" ||
			len(word) < 1 || len(word) > 4 || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("%+v: %q is not in the language", cfg, text)
		}
	}
}

func TestAcceptRefusesWhatTheGrammarRejects(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	v := m.Vocab()
	s := newSampler(t, m, SamplerConfig{Grammar: `root ::= "the" "."`})
	for _, tok := range []Token{'x', v.eos} {
		if err := s.Accept(tok); !errors.Is(err, ErrRejected) {
			t.Errorf("Accept(%q): %v", v.Piece(tok, true), err)
		}
	}
	for _, bad := range []Token{-1, Token(v.Size())} {
		if err := s.Accept(bad); err == nil || errors.Is(err, ErrRejected) {
			t.Errorf("Accept(%d): %v", bad, err)
		}
	}
	for _, tok := range append(tokenize(t, m, "the."), v.eos) {
		if err := s.Accept(tok); err != nil {
			t.Errorf("Accept(%q) after rejections: %v", v.Piece(tok, true), err)
		}
	}
	if err := newSampler(t, m, SamplerConfig{}).Accept(5); err != nil {
		t.Errorf("Accept without a grammar: %v", err)
	}
}

func TestDeadGrammar(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	v := m.Vocab()
	var eog []Token
	for tok := range Token(v.Size()) {
		if v.IsEOG(tok) {
			eog = append(eog, tok)
		}
	}
	for _, cfg := range []SamplerConfig{{}, {Temperature: 1, TopK: 4}, {Temperature: 1}} {
		cfg.Grammar, cfg.Suppress = `root ::= "A"`, eog // only the end may follow A
		s := newSampler(t, m, cfg)
		row := randomRow(m, 2)
		if got := string(v.Piece(mustSample(t, s, row), true)); got != "A" {
			t.Fatalf("%+v: %q", cfg, got)
		}
		for range 2 {
			if _, err := s.Sample(row); !errors.Is(err, ErrGrammarDead) {
				t.Errorf("%+v: %v", cfg, err)
			}
		}
	}
}

func TestOnlyTheEndFollowsTheEnd(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	s := newSampler(t, m, SamplerConfig{Grammar: `root ::= "A"`})
	row := randomRow(m, 2)
	mustSample(t, s, row)
	for range 3 {
		if tok := mustSample(t, s, row); !m.Vocab().IsEOG(tok) {
			t.Errorf("%q after the end", m.Vocab().Piece(tok, true))
		}
	}
}

// TestGrammarsAgreeWithRegularExpressions compares the matcher with Go's regular
// expressions, token by token, on texts whose characters are split over tokens.
func TestGrammarsAgreeWithRegularExpressions(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, tc := range []struct{ gbnf, expression string }{
		{`root ::= ("a" | "ab" | "\u00e9")*`, `^(a|ab|é)*$`},
		{`root ::= [a-b]* [^b\u00e9] "b"?`, `^[a-b]*[^bé]b?$`},
		{`root ::= ("a"? "b"?){2,4} .`, `^(?s)(a?b?){2,4}.$`},
		{`root ::= [\u00e8-\u00ea\U0001F600-\U0001F64F]+ | x
x ::= "a" x "b" | "é"`, `^([è-ê😀-🙏]+|é|aéb|aaébb|aaaébbb)$`},
	} {
		want := regexp.MustCompile(tc.expression)
		admitted := 0
		for range 800 {
			var b strings.Builder
			for range rng.IntN(6) {
				b.WriteString([]string{"a", "b", "é", "😀", "aéb"}[rng.IntN(5)])
			}
			text := b.String()
			if got := accepts(t, m, tc.gbnf, text); got != want.MatchString(text) {
				t.Fatalf("%s: %q is admitted: %t", tc.gbnf, text, got)
			} else if got {
				admitted++
			}
		}
		if admitted < 20 {
			t.Errorf("%s admitted only %d texts", tc.gbnf, admitted)
		}
	}
}

// TestHalfACharacterCanBeCompleted: a token may end inside a character only if an admitted
// character begins with these bytes.
func TestHalfACharacterCanBeCompleted(t *testing.T) {
	m := shared(t, synth.Qwen3)
	v := m.Vocab()
	for _, tc := range []struct {
		gbnf, bytes string
		fits        bool
	}{
		{`root ::= [^a]`, "\xED\x9F", true},
		{`root ::= [^a]`, "\xED\xA0", false}, // a surrogate
		{`root ::= [^a]`, "\xE0\x80", false}, // not the shortest encoding
		{`root ::= [^a]`, "\xF4\x90", false}, // beyond Unicode
		{`root ::= "\u00e9"`, "\xC3", true},
		{`root ::= "\u00e9"`, "\xC4", false},
		{`root ::= [\u4e00-\u4e3f]`, "\xE4\xB8", true},
		{`root ::= [\u4e00-\u4e3f]`, "\xE4\xB9", false},
	} {
		s := newSampler(t, m, SamplerConfig{Grammar: tc.gbnf})
		var err error
		for i := range len(tc.bytes) {
			tok, ok := v.Find(tc.bytes[i : i+1])
			if !ok {
				t.Fatalf("byte %x is no token", tc.bytes[i])
			}
			if err = s.Accept(tok); err != nil {
				break
			}
		}
		if (err == nil) != tc.fits {
			t.Errorf("%s: %q: %v", tc.gbnf, tc.bytes, err)
		}
	}
}

// TestAmbiguousGrammarsAreMatched would take years if each path were followed alone.
func TestAmbiguousGrammarsAreMatched(t *testing.T) {
	m := shared(t, synth.Qwen3)
	var names []string
	for i := range 9000 {
		names = append(names, fmt.Sprintf(`"name%d"`, i))
	}
	for _, tc := range []struct {
		rule, gbnf string
		refused    bool
	}{
		{"stars in a row", `root ::= "\"" ` + strings.Repeat("[a-z]* ", 300) + `"\""`, false},
		{"repetitions of repetitions", `root ::= ` + strings.Repeat("([a-z]{0,30}){0,30} ", 3), false},
		{"lists that begin alike", `root ::= "[" root? "]" | "[" root? "];" | "[" root? "]!"`, true},
		{"a large enumeration", `root ::= ` + strings.Join(names, " | "), false},
		{"optional characters without end", `root ::= "x" ` + strings.Repeat("[a-z]? ", 2000), true},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			s := newSampler(t, m, SamplerConfig{Grammar: tc.gbnf, Temperature: 1})
			favourite := tokenize(t, m, "[")[0]
			for step := range uint64(60) {
				row := randomRow(m, step)
				row[favourite] += 30 // a model that prefers the ambiguous rule
				tok, err := s.Sample(row)
				if err != nil {
					if !tc.refused || !errors.Is(err, ErrGrammar) {
						t.Fatal(err)
					}
					if _, err := s.Sample(row); !errors.Is(err, ErrGrammarDead) {
						t.Errorf("after the refusal: %v", err)
					}
					return
				}
				if m.Vocab().IsEOG(tok) {
					break
				}
			}
			if tc.refused {
				t.Error("was not refused")
			}
		})
	}
}

// TestForceNeedsNoLongLookAhead: where few tokens are admitted, they are found before one is
// chosen. The cost of that search must not fail a text whose chosen token is cheap.
func TestForceNeedsNoLongLookAhead(t *testing.T) {
	m := shared(t, synth.Qwen3)
	s := newSampler(t, m, SamplerConfig{Grammar: `root ::= "th" ` + strings.Repeat("([a-z]{0,30}){0,30} ", 10)})
	want := tokenize(t, m, "t")[0]
	row := randomRow(m, 1)
	row[want] += 30
	if got := mustSample(t, s, row); got != want {
		t.Errorf("token %d, want %d", got, want)
	}
}
