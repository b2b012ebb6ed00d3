package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/generation"
)

// forcedGrammar has a choice of names and a free text. All other tokens are forced.
const forcedGrammar = `root ::= call ("\n" call){0,2}
call ::= "<tool_call>\n{\"name\": \"" ("go_to" | "open_container" | "report") "\", \"arguments\": {\"place\": \"" [a-z ]{1,12} "\"}}\n</tool_call>"`

// forcedText draws a text of forcedGrammar.
func forcedText(r *rand.Rand) string {
	var calls []string
	for range 1 + r.IntN(3) {
		name := []string{"go_to", "open_container", "report"}[r.IntN(3)]
		place := []string{"the hall", "kitchen", "a", " box ", "xyz"}[r.IntN(5)]
		calls = append(calls, fmt.Sprintf("<tool_call>\n{\"name\": %q, \"arguments\": {\"place\": %q}}\n</tool_call>", name, place))
	}
	return strings.Join(calls, "\n")
}

// constrained is a generation under forcedGrammar.
func constrained(g generation.Request) generation.Request {
	g.Grammar = forcedGrammar
	return g
}

// scribe is a backend whose logits make every candidate write one of several texts, in the
// tokenizer's tokens. All texts that start as the candidate does are equally likely.
type scribe struct {
	*recorder
	prompt int // tokens
	texts  [][]llama.Token
	end    llama.Token
}

func (s *scribe) Logits(i int) ([]float32, error) {
	row, err := s.recorder.Logits(i)
	if err != nil {
		return nil, err
	}
	row = slices.Clone(row)
	written := s.contexts[i][s.prompt:]
	for _, text := range s.texts {
		if len(text) < len(written) || !slices.Equal(written, text[:len(written)]) {
			continue
		}
		next := s.end
		if len(written) < len(text) {
			next = text[len(written)]
		}
		row[next] = 1000
	}
	return row, nil
}

// endOfText returns the first token that ends a generation.
func endOfText(t *testing.T, v *llama.Vocab) llama.Token {
	t.Helper()
	for token := range llama.Token(v.Size()) {
		if v.IsEOG(token) {
			return token
		}
	}
	t.Fatal("the vocabulary has no token that ends a generation")
	return -1
}

func newScribe(t *testing.T, m *llama.Model, under *recorder, prompt int) *scribe {
	t.Helper()
	s := &scribe{recorder: under, prompt: prompt, end: endOfText(t, m.Vocab())}
	r := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		tokens, err := m.Vocab().Tokenize(forcedText(r), false, true)
		if err != nil {
			t.Fatal(err)
		}
		s.texts = append(s.texts, tokens)
	}
	if im, ok := m.Vocab().Find("<|im_end|>"); ok {
		s.end = im
	}
	return s
}

// newScribes makes two engines of scribes: one as configured, and one that samples each
// token in a separate step.
func newScribes(t *testing.T, arch string, prompt []llama.Token, cfg Config) (with, without *Engine) {
	t.Helper()
	m := testModel(t, arch)
	open := func(cfg Config) *Engine {
		return newTestEngine(t, setup{arch: arch, batch: 24, outputs: max(8, cfg.DraftRows), cfg: cfg, wrap: func(b backend) backend {
			return newScribe(t, m, newRecorder(b), len(prompt))
		}})
	}
	plain := cfg
	plain.NoForcedTokens, plain.DraftRows = true, 0
	return open(cfg), open(plain)
}

// With forced tokens the tokens, counts and finish reasons are the same, in fewer steps.
func TestForcedTokensOnlySaveSteps(t *testing.T) {
	for _, arch := range architectures {
		t.Run(arch, func(t *testing.T) {
			prompt := tokenize(t, testModel(t, arch), story)
			with, without := newScribes(t, arch, prompt, Config{})
			for name, g := range map[string]generation.Request{
				"greedy":        greedy(prompt, 1, 400),
				"sampled":       sampled(prompt, 6, 400, 7),
				"more at once":  sampled(prompt, 12, 400, 50),
				"cut off":       sampled(prompt, 8, 30, 90),
				"cut off early": sampled(prompt, 8, 3, 90),
			} {
				t.Run(name, func(t *testing.T) {
					a, b := mustGenerate(t, with, constrained(g)), mustGenerate(t, without, constrained(g))
					if diff := cmp.Diff(b.Completions, a.Completions); diff != "" {
						t.Error(diff)
					}
				})
			}
			s, plain := with.Stats(), without.Stats()
			t.Logf("%d of %d tokens forced, %d steps instead of %d", s.ForcedTokens, s.GeneratedTokens, s.Steps, plain.Steps)
			if s.ForcedTokens == 0 || plain.ForcedTokens != 0 || s.GeneratedTokens != plain.GeneratedTokens {
				t.Errorf("forced tokens %d and %d, generated %d and %d", s.ForcedTokens, plain.ForcedTokens, s.GeneratedTokens, plain.GeneratedTokens)
			}
			if s.Steps*3 > plain.Steps*2 {
				t.Errorf("%d steps with forced tokens, %d without", s.Steps, plain.Steps)
			}
			if s.PrefillTokens > plain.PrefillTokens {
				t.Errorf("forced tokens are counted as those of prompts: %d, %d without", s.PrefillTokens, plain.PrefillTokens)
			}
		})
	}
}

func TestForcedEndTakesNoStep(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{})
	const answer = `root ::= ("A" | "B") " is the answer."`
	longest := len(tokenize(t, m, "A is the answer."))
	for rule, tc := range map[string]struct {
		grammar string
		max     int
		finish  generation.Finish
	}{
		"after the first token":               {`root ::= "A" | "B"`, 20, generation.FinishStop},
		"after forced ones":                   {answer, 60, generation.FinishStop},
		"with the last token that may come":   {answer, longest, generation.FinishStop},
		"not when the tokens before are cut":  {answer, longest - 1, generation.FinishLength},
		"not when the model may say it or on": {`root ::= ("A" | "B") "!"?`, 1, generation.FinishLength},
	} {
		t.Run(rule, func(t *testing.T) {
			g := greedy(tokenize(t, m, rule), 1, tc.max)
			g.Grammar = tc.grammar
			before := e.Stats()
			c := mustGenerate(t, e, g).Completions[0]
			if c.Finish != tc.finish || (c.Stop != "") != (tc.finish == generation.FinishStop) || len(c.Tokens) > tc.max {
				t.Errorf("%+v", c)
			}
			if ends, err := m.Vocab().Tokenize(c.Stop, false, true); c.Stop != "" && (err != nil || len(ends) != 1 || !m.Vocab().IsEOG(ends[0])) {
				t.Errorf("%q ends it", c.Stop)
			}
			if got := e.Stats().Steps - before.Steps; got > 2 {
				t.Errorf("%d steps", got)
			}
		})
	}
}

// The logits after forced tokens equal the logits of the tokens computed alone.
func TestLogitsAfterForcedTokens(t *testing.T) {
	for _, arch := range architectures {
		t.Run(arch, func(t *testing.T) {
			m := testModel(t, arch)
			var r *recorder
			e := newTestEngine(t, setup{
				arch: arch, cells: 700, sequences: 6, outputs: 5, batch: 20,
				wrap: func(b backend) backend { r = newRecorder(b); return r },
			})
			for turn := range 3 {
				mustGenerate(t, e, constrained(sampled(tokenize(t, m, story[:30+turn]), 7, 60, uint32(turn))))
			}
			if s := e.Stats(); s.ForcedTokens == 0 {
				t.Errorf("nothing was forced: %+v", s)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			compareLogits(t, arch, r.read)
		})
	}
}
