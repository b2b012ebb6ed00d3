package scheduler

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/generation"
)

func TestRepeatingCompletionEnds(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	prompt := tokenize(t, m, story)
	e := newTestEngine(t, setup{batch: 24, wrap: func(b backend) backend {
		s := newScribe(t, m, newRecorder(b), len(prompt))
		s.texts = [][]llama.Token{tokenize(t, m, "Now, "+strings.Repeat("the very same words all over again; ", 30))}
		return s
	}})
	for name, tc := range map[string]struct {
		adjust   func(*generation.Request)
		finish   generation.Finish
		text     string
		repeated string
	}{
		"four times":      {nil, generation.FinishRepeat, "Now, " + strings.Repeat("the very same words all over again; ", 4), `" the very same words all over again;" came four times in a row`},
		"limited before":  {func(g *generation.Request) { g.MaxTokens = 20 }, generation.FinishLength, "", ""},
		"not looked for":  {func(g *generation.Request) { g.StopRepeats = false }, generation.FinishLength, "", ""},
		"sampled by many": {func(g *generation.Request) { g.N, g.Seeds, g.Temperature = 3, []uint32{1, 2, 3}, 1 }, generation.FinishRepeat, "", "came four times in a row"},
	} {
		t.Run(name, func(t *testing.T) {
			g := greedy(prompt, 1, 200)
			g.StopRepeats = true
			if tc.adjust != nil {
				tc.adjust(&g)
			}
			before := e.Stats().Repeated
			for _, c := range mustGenerate(t, e, g).Completions {
				text := strings.TrimSpace(c.Text)
				if c.Finish != tc.finish || !strings.HasPrefix(text, strings.TrimSpace(tc.text)) || !strings.Contains(c.Repeated, strings.TrimPrefix(tc.repeated, `" `)) || (tc.repeated == "") != (c.Repeated == "") {
					t.Errorf("finish %s, %q came again, in %q", c.Finish, c.Repeated, c.Text)
				}
				if tc.finish == generation.FinishRepeat && len(text) > len("Now, ")+5*36 {
					t.Errorf("it ended after %q", text)
				}
			}
			want := 0
			if tc.finish == generation.FinishRepeat {
				want = g.N
			}
			if got := int(e.Stats().Repeated - before); got != want {
				t.Errorf("%d candidates are counted, want %d", got, want)
			}
		})
	}
	g := greedy(tokenize(t, m, "x"), 1, 20)
	g.IgnoreEnd, g.StopRepeats = true, true
	if _, err := generate(t.Context(), e, g); err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("IgnoreEnd and StopRepeats: %v", err)
	}
}

func TestForcedConstantThatRepeatsIsNoRepetition(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{})
	g := greedy(tokenize(t, m, "x"), 1, 200)
	g.Grammar, g.StopRepeats = `root ::= "Now, " ("the very same words all over again; "){6} "end."`, true
	c := mustGenerate(t, e, g).Completions[0]
	if c.Finish != generation.FinishStop || c.Repeated != "" || !strings.HasSuffix(c.Text, "end.") {
		t.Errorf("finish %s, %q came again, in %q", c.Finish, c.Repeated, c.Text)
	}
}

// A repetition ends at the same token for any number of tokens in a step.
func TestRepetitionEndsAtSameTokenWithForcedAndDraftTokens(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	prompt := tokenize(t, m, story)
	for name, cfg := range map[string]Config{"forced tokens": {}, "speculation": {Policy: Policy{DraftRows: 16}}} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(9, 9))
			var texts [][]llama.Token
			for range 12 {
				call, _, _ := strings.Cut(forcedText(r), "</tool_call>")
				text := strings.Repeat(call+"</tool_call>\n", 6)
				tokens, err := m.Vocab().Tokenize(text, false, true)
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, tokens)
			}
			open := func(cfg Config) *Engine {
				return newTestEngine(t, setup{batch: 24, outputs: max(8, cfg.DraftRows), cfg: cfg, wrap: func(b backend) backend {
					s := newScribe(t, m, newRecorder(b), len(prompt))
					s.texts = texts
					return s
				}})
			}
			g := constrained(sampled(prompt, 10, 400, 7))
			g.Grammar = strings.Replace(g.Grammar, "{0,2}", "{0,9}", 1)
			g.StopRepeats = true
			with, without := mustGenerate(t, open(cfg), g), mustGenerate(t, open(Config{NoForcedTokens: true}), g)
			if diff := cmp.Diff(without.Completions, with.Completions); diff != "" {
				t.Error(diff)
			}
			for _, c := range with.Completions {
				if c.Finish != generation.FinishRepeat || !strings.HasSuffix(c.Repeated, " came four times in a row") {
					t.Errorf("finish %s, %q, in %q", c.Finish, c.Repeated, c.Text)
				}
			}
		})
	}
}
