package scheduler

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"agentd/llama/synth"
	"agentd/scheduler/generation"
)

// stopAfter is how many tokens of a completion its text needs to have one of the others.
func stopAfter(e *Engine, tokens []generation.Token, s *generation.Stop) int {
	n := 1
	for n < len(tokens) && !s.Ends(e.vocab.Detokenize(tokens[:n], true)) {
		n++
	}
	return n
}

// TestStopTextEndsWithTheTokenThatCompletesIt: all before it is as without the text, also beside other candidates.
func TestStopTextEndsWithTheTokenThatCompletesIt(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	for name, draw := range map[string]func(e *Engine) generation.Request{
		"greedy":  func(*Engine) generation.Request { return greedy(tokenize(t, m, story), 1, 40) },
		"sampled": func(*Engine) generation.Request { return sampled(tokenize(t, m, story), 4, 40, 7) },
		"forced": func(*Engine) generation.Request {
			g := sampled(tokenize(t, m, story), 2, 40, 7)
			g.Grammar = `root ::= [ab] "lpha beta gamma delta epsilon"`
			return g
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestEngine(t, setup{cfg: Config{Policy: Policy{DraftRows: 8}}})
			g := draw(e)
			g.Scores, g.IgnoreEnd = true, g.Grammar == ""
			whole := mustGenerate(t, e, g)
			first := whole.Completions[0].Tokens
			at := len(first) / 2
			g.Stop = &generation.Stop{Texts: []string{"\x00 never", strings.TrimSpace(e.vocab.Detokenize(first[at:at+2], true))}}
			got := mustGenerate(t, e, g)
			for i, c := range got.Completions {
				all := whole.Completions[i].Tokens
				want := all[:stopAfter(e, all, g.Stop)]
				if !slices.Equal(c.Tokens, want) || len(c.Scores) != len(want) || c.Stop != "" {
					t.Errorf("candidate %d: %d tokens, %d scores, end %q; want %d of %d tokens", i, len(c.Tokens), len(c.Scores), c.Stop, len(want), len(all))
				}
				if len(want) < len(all) && c.Finish != generation.FinishStop {
					t.Errorf("candidate %d ended by %s", i, c.Finish)
				}
				if i == 0 && len(want) > at+2 {
					t.Errorf("the text of tokens %d and %d ended after %d", at, at+1, len(want))
				}
			}
		})
	}
}

func TestStopTextMayHaveBegunBeforeAPause(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{})
	g := greedy(tokenize(t, m, story), 1, 20)
	g.IgnoreEnd = true
	all := mustGenerate(t, e, g).Completions[0].Tokens
	text := e.vocab.Detokenize(all[:7], true)
	g.Stop = &generation.Stop{Texts: []string{text[1:]}, Visible: func(text string) string { return text + "" }}
	g.Resume = &generation.Result{Completions: []generation.Completion{{Tokens: all[:4], Finish: generation.FinishPaused}}}
	if got := mustGenerate(t, e, g).Completions[0]; !slices.Equal(got.Tokens, all[:7]) || got.Finish != generation.FinishStop {
		t.Errorf("%v ended by %s, want %v", got.Tokens, got.Finish, all[:7])
	}
	g.Stop.Visible = func(string) string { return "" }
	if got := mustGenerate(t, e, g).Completions[0]; !slices.Equal(got.Tokens, all) {
		t.Errorf("%d tokens, want %d: the text is not visible", len(got.Tokens), len(all))
	}
}

// Each piece is looked at once, and the answer is that of a search in the whole text.
func TestStopTextIsFoundInPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	for range 300 {
		s := &generation.Stop{Texts: []string{"ab", "bba", "c"}[:1+rng.IntN(3)]}
		if rng.IntN(2) == 0 {
			s.Visible = func(text string) string { return strings.TrimLeft(text, "ab")[:len(strings.TrimLeft(text, "ab"))*3/4] }
		}
		var text stopText
		for range 12 {
			piece := make([]byte, rng.IntN(4))
			for i := range piece {
				piece[i] = "abcd"[rng.IntN(4)]
			}
			if got, want := text.add(s, piece), s.Ends(text.String()); got != want {
				t.Fatalf("%v in %q after the piece %q: %t, want %t", s.Texts, text.String(), piece, got, want)
			}
		}
	}
}
