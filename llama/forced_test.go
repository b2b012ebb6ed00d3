package llama

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"agentd/inference/defaultmodel"
	"agentd/llama/synth"
)

// callGrammar is an agent's grammar: one or more tool calls, or a reply.
const callGrammar = `root ::= call ("\n" call){0,3} | reply
reply ::= [^<]+
call ::= "<tool_call>\n{\"name\": \"" (go | open | odd) "}\n</tool_call>"
go ::= "go_to\", \"arguments\": " "{" space "\"room\":" space string "," space "\"target_robot\":" space robot space "}"
open ::= "open_container\", \"arguments\": " "{" space "\"container\":" space string ("," space "\"force\":" space [0-9]+)? space "}"
odd ::= "gö  to\t\", \"arguments\": " "{" space "\"a b\":" space ("true" | "false") space "}"
robot ::= "\"rover\"" | "\"scout\"" | "\"rover_2\""
string ::= "\"" ([^"\\\n] | "\\" ["n])* "\"" space
space ::= " "?`

// callText draws a text of callGrammar, with common or unusual JSON spacing.
func callText(r *rand.Rand) string {
	space := func() string {
		if r.IntN(8) == 0 {
			return ""
		}
		return " "
	}
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	value := func() string {
		return `"` + one("kitchen", "the hall", "", "room 12", " ", `a \"b\"`, "Küche", "x'll", "don't", `\n\n`, "</tool_call>", "日本", "e\u0301") + `"`
	}
	if r.IntN(6) == 0 {
		return one("Done.", "I can't  do that.", " {\"name\": \"x\"}", "\n\nYes", "123 456")
	}
	var calls []string
	for range 1 + r.IntN(3) {
		var call string
		switch r.IntN(3) {
		case 0:
			call = `go_to", "arguments": {` + one("", "", "", " ") + `"room":` + space() + value() + `,` + space() + `"target_robot":` + space() +
				one(`"rover"`, `"scout"`, `"rover_2"`) + one("", "", " ") + `}`
		case 1:
			call = `open_container", "arguments": {"container":` + space() + value() + one("", `, "force": 12`, `,"force":7`) + `}`
		default:
			call = "gö  to\t" + `", "arguments": {"a b":` + space() + one("true", "false") + `}`
		}
		calls = append(calls, "<tool_call>\n{\"name\": \""+call+"}\n</tool_call>")
	}
	return strings.Join(calls, "\n")
}

// forceModels are vocabularies of different kinds.
func forceModels(t testing.TB) map[string]*Model {
	t.Helper()
	path, err := defaultmodel.Path("")
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Free() })
	return map[string]*Model{"qwen, 151,936 tokens": shared(t, synth.Qwen3), "gpt-oss, cut down": shared(t, synth.GPTOSS), "llama, cut down": shared(t, synth.Llama), "household, 4,070 tokens": m}
}

// walk writes a text token by token with the help of Force. It returns the number of
// forced tokens, and whether the end was forced.
func walk(t *testing.T, m *Model, s *Sampler, text string) (forced, total int, end Token) {
	t.Helper()
	tokens := tokenize(t, m, text)
	end = -1
	for i := 0; ; {
		list, stop, err := s.Force(nil)
		if err != nil {
			t.Fatal(err)
		}
		if i+len(list) > len(tokens) || !slices.Equal(list, tokens[i:i+len(list)]) {
			t.Fatalf("%q: after %q %q was forced, the tokenizer goes on with %q", text, m.Vocab().Detokenize(tokens[:i], true),
				pieces(m, list), pieces(m, tokens[i:min(len(tokens), i+len(list)+1)]))
		}
		forced += len(list)
		i += len(list)
		if stop >= 0 {
			if i != len(tokens) {
				t.Fatalf("%q: the end is forced after %q", text, m.Vocab().Detokenize(tokens[:i], true))
			}
			end = stop
		}
		if i == len(tokens) {
			return forced, len(tokens), end
		}
		if err := s.Accept(tokens[i]); err != nil {
			t.Fatalf("%q: %q after %q: %v", text, m.Vocab().Piece(tokens[i], true), m.Vocab().Detokenize(tokens[:i], true), err)
		}
		i++
	}
}

func pieces(m *Model, tokens []Token) (list []string) {
	for _, t := range tokens {
		list = append(list, string(m.Vocab().Piece(t, true)))
	}
	return list
}

// Forced tokens must equal the tokenizer's tokens.
func TestForcedTokensMatchTheTokenizer(t *testing.T) {
	for name, m := range forceModels(t) {
		t.Run(name, func(t *testing.T) {
			s := newSampler(t, m, SamplerConfig{Grammar: callGrammar})
			r := rand.New(rand.NewPCG(5, 6))
			var forced, total int
			for range 400 {
				c, err := s.Clone()
				if err != nil {
					t.Fatal(err)
				}
				f, n, _ := walk(t, m, c, callText(r))
				forced, total = forced+f, total+n
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d of %d tokens were forced", forced, total)
			if forced*5 < total {
				t.Error("too few")
			}
		})
	}
}

func TestWhatIsForced(t *testing.T) {
	for _, tc := range []struct {
		rule, gbnf, text string
		forced           []string // after text, which the model has written
		ends             bool
	}{
		{"no token if there is a choice", `root ::= "a" | "b"`, "", nil, false},
		{"no token if the text may also end", `root ::= "a" "b"?`, "a", nil, false},
		{"a literal and the end after it", `root ::= "yes, I can"`, "", []string{"yes", ",", " I", " can"}, true},
		{"the end alone", `root ::= "yes"`, "yes", nil, true},
		{"the rest of a name, once it is the only one", `root ::= ("go_to" | "open" ) "\"."`, "go", []string{"_to", "\"."}, true},
		{"not the last token, when it could go on", `root ::= "room is" [a-z]`, "", []string{"room"}, false},
		{"the last token, when nothing can join it", `root ::= "{\"room" [!?]`, "", []string{"{\"", "room"}, false},
		{"white space is never last", `root ::= "room " [0-9]`, "", []string{"room"}, false},
		{"no token where tokenizations differ", `root ::= "rooms are nice."`, "r|o", nil, false},
		{"special tokens as single ids", `root ::= "a" "</tool_call>" [\n]?`, "a", []string{"</tool_call>"}, false},
		{"characters of several bytes", `root ::= "日本語で" "x"`, "", []string{"日本", "語", "で", "x"}, true},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			m := shared(t, synth.Qwen3)
			s := newSampler(t, m, SamplerConfig{Grammar: tc.gbnf})
			for part := range strings.SplitSeq(tc.text, "|") {
				for _, tok := range tokenize(t, m, part) {
					if err := s.Accept(tok); err != nil {
						t.Fatal(err)
					}
				}
			}
			list, end, err := s.Force(nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := pieces(m, list); !slices.Equal(got, tc.forced) || (end >= 0) != tc.ends {
				t.Errorf("%q and end %d, want %q and %t", got, end, tc.forced, tc.ends)
			}
			if end >= 0 && string(m.Vocab().Piece(end, true)) != "<|im_end|>" {
				t.Errorf("the text ends by %q", m.Vocab().Piece(end, true))
			}
		})
	}
}

// A model may write a character byte by byte, so that the last tokens begin inside one.
func TestForcedTokensBehindPartsOfCharacters(t *testing.T) {
	m := shared(t, synth.Qwen3)
	for _, before := range []string{"\xF0\x9F\x98\x80x", "\xE6\x97\xA5\xE6\x9C\xACx", "\xC3\xA9\xC3\xA9x"} {
		s := newSampler(t, m, SamplerConfig{Grammar: `root ::= [^x]+ "x" "(yes)"`})
		for i := range len(before) {
			tok, ok := m.Vocab().Find(before[i : i+1])
			if !ok {
				t.Fatalf("byte %x is no token", before[i])
			}
			if list, end, err := s.Force(nil); err != nil || len(list) > 0 || end >= 0 {
				t.Errorf("%q: inside of a character %q, %d, %v", before[:i], pieces(m, list), end, err)
			}
			if err := s.Accept(tok); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := s.Force(nil); err != nil {
			t.Errorf("%q: %v", before, err)
		}
	}
}

// FuzzForce takes any grammar and any text of it. Forced tokens must be the only ones that
// the grammar admits.
func FuzzForce(f *testing.F) {
	f.Add(callGrammar, "<tool_call>\n{\"name\": \"go_to\", \"arguments\": {\"room\": ")
	f.Add(`root ::= ("é" | "日本")+ "x"{2,3} "<tool_call>"`, "é日本xx")
	f.Add(`root ::= [^a]* "\U0001F600 \n  b"? <|im_end|>`, "\xf0\x9f")
	m := shared(f, synth.GPTOSS)
	f.Fuzz(func(t *testing.T, gbnf, text string) {
		if len(gbnf) > 1000 || len(text) > 200 {
			return
		}
		s, err := m.NewSampler(SamplerConfig{Grammar: gbnf})
		if err != nil {
			return
		}
		defer s.Close()
		for i := range len(text) {
			tok, ok := m.Vocab().Find(text[i : i+1])
			if !ok || s.Accept(tok) != nil {
				break
			}
			alone, err := s.Clone()
			if err != nil {
				t.Fatal(err)
			}
			list, end, err := s.Force(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, tok := range list {
				if first := m.Vocab().Piece(tok, true)[0]; !onlyByte(m, alone, first) {
					t.Errorf("%q is forced, there is a choice", pieces(m, list))
				}
				if err := alone.Accept(tok); err != nil {
					t.Errorf("%q is forced: %v", m.Vocab().Piece(tok, true), err)
				}
			}
			if end >= 0 && alone.Accept(end) != nil {
				t.Error("an end is forced that may not come")
			}
			if err := alone.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// onlyByte reports whether the grammar admits no single-byte token but b.
func onlyByte(m *Model, s *Sampler, b byte) bool {
	for other := range 256 {
		tok, ok := m.Vocab().Find(string([]byte{byte(other)}))
		if !ok || byte(other) == b {
			continue
		}
		c, err := s.Clone()
		if err != nil {
			return false
		}
		admitted := c.Accept(tok) == nil
		if c.Close() != nil || admitted {
			return false
		}
	}
	return true
}

func TestForcedTokensAreNotSuppressedOnes(t *testing.T) {
	m := shared(t, synth.Qwen3)
	s := newSampler(t, m, SamplerConfig{Grammar: `root ::= "a.<|im_start|>b"`, SuppressControl: true})
	list, end, err := s.Force(nil)
	if got := strings.Join(pieces(m, list), ""); err != nil || !strings.HasPrefix("a.", got) || end >= 0 {
		t.Errorf("%q, end %d, %v", got, end, err)
	}
	eot, _ := m.Vocab().Find("<|im_end|>")
	s = newSampler(t, m, SamplerConfig{Grammar: `root ::= "ab"`, Suppress: []Token{eot}})
	if list, end, err := s.Force(nil); err != nil || end >= 0 {
		t.Errorf("a suppressed end is forced: %q, %d, %v", pieces(m, list), end, err)
	}
}

func TestWithoutAGrammarNothingIsForced(t *testing.T) {
	s := newSampler(t, shared(t, synth.Qwen3), SamplerConfig{})
	if list, end, err := s.Force([]Token{7}); err != nil || end != -1 || !slices.Equal(list, []Token{7}) {
		t.Errorf("%v, %d, %v", list, end, err)
	}
}

func TestOneForceHasItsLimit(t *testing.T) {
	m := shared(t, synth.Qwen3)
	text := strings.Repeat("a; ", 500) + "end."
	s := newSampler(t, m, SamplerConfig{Grammar: fmt.Sprintf("root ::= %q", text)})
	if forced, _, _ := walk(t, m, s, text); forced < 500 {
		t.Errorf("%d tokens were forced of a literal", forced)
	}
	s = newSampler(t, m, SamplerConfig{Grammar: fmt.Sprintf("root ::= %q", text)})
	if list, _, err := s.Force(nil); err != nil || len(list) > MaxForced || len(list) < MaxForced/2 {
		t.Errorf("%d tokens at a time, %v", len(list), err)
	}
}
