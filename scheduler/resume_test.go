package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/generation"
)

// TestRepeatingAnswerIsTheSameFromEachToken, whichever of them the grammar forced.
func TestRepeatingAnswerIsTheSameFromEachToken(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	prompt := tokenize(t, m, story)
	text := "Now, " + strings.Repeat("the very same words all over again; ", 30)
	e := newTestEngine(t, setup{wrap: func(b backend) backend {
		s := newScribe(t, m, newRecorder(b), len(prompt))
		s.texts = [][]llama.Token{tokenize(t, m, text)}
		return s
	}})
	for name, tc := range map[string]struct {
		grammar string
		finish  generation.Finish
	}{
		"sampled":               {"", generation.FinishRepeat},
		"partly forced":         {`root ::= "Now, " ("the very same words all over again; " | "the very other words; ")+ "."`, generation.FinishRepeat},
		"forced, then complete": {`root ::= "Now, the" [ ] "very same words all over again; the very same words all over again; the very same words all over again; the very same words all over again; "`, generation.FinishStop},
		"all forced":            {`root ::= "Now, " ("the very same words all over again; "){6} "end."`, generation.FinishStop},
	} {
		for stops, stride := range map[bool]int{true: 1, false: 7} { // the answer goes on to 200 tokens
			t.Run(fmt.Sprint(name, ", repeats end it: ", stops), func(t *testing.T) {
				g := greedy(prompt, 1, 200)
				g.Grammar, g.StopRepeats, g.Scores = tc.grammar, stops, true
				want := mustGenerate(t, e, g).Completions[0]
				if want.Finish != tc.finish && stops {
					t.Errorf("ended by %s, want %s", want.Finish, tc.finish)
				}
				all := want.All()
				for n := 0; n <= len(all); n += stride {
					g.Resume = &generation.Result{Completions: []generation.Completion{{Tokens: all[:n], Finish: generation.FinishPaused}}}
					got := mustGenerate(t, e, g).Completions[0]
					if !slices.Equal(got.Tokens, want.Tokens) || got.Finish != want.Finish || got.Stop != want.Stop || got.Repeated != want.Repeated || len(got.Scores) != len(want.Scores) {
						t.Fatalf("from %d tokens: %d, %d scores, %s %q %q; want %d, %d scores, %s %q", n,
							len(got.Tokens), len(got.Scores), got.Finish, got.Repeated, got.Text, len(want.Tokens), len(want.Scores), want.Finish, want.Repeated)
					}
					for k, s := range want.Scores {
						if got := got.Scores[k]; got.Forced != s.Forced || k >= n && (got.Logprob == got.Logprob) != (s.Logprob == s.Logprob) {
							t.Errorf("from %d tokens: score %d is %+v, want %+v", n, k, got, s)
						}
					}
				}
			})
		}
	}
}
