package scheduler

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/generation"
)

// scoring asks for the scores of a text from a token on, without an answer.
func scoring(text []llama.Token, from int) generation.Request {
	g := greedy(text, 1, 0)
	g.ScoreFrom, g.Top = from, 2
	return g
}

// A prompt's logprobs have the bits that generation reported for the same tokens, whatever else a step computes.
func TestPromptScoresAreThoseOfGeneration(t *testing.T) {
	if testDevice != "" || !llama.SharedAttention() {
		t.Skip("other kernels compute than our own for the CPU")
	}
	for _, arch := range []string{synth.Qwen3, synth.GPTOSS, synth.Qwen35} {
		t.Run(arch, func(t *testing.T) {
			spec, err := synth.Preset("tiny", arch)
			if err != nil {
				t.Fatal(err)
			}
			spec.Type, spec.Small, spec.Embedding, spec.HeadDim = "bf16", true, 128, 32
			path, err := synth.Cached("", spec)
			if err != nil {
				t.Fatal(err)
			}
			m, err := llama.New(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Free() })
			prompt := tokenize(t, m, story)
			options := func(int) []llama.ContextOption {
				return []llama.ContextOption{llama.SetKVType("f16"), llama.SetFlashAttention(true)}
			}
			e := newTestEngine(t, setup{model: m, cells: 4096, batch: 48, outputs: 24, cfg: Config{Policy: Policy{MaxRunning: 8, DraftRows: 16}}, options: options})
			g := sampled(prompt, 6, 60, 5)
			g.Scores, g.Top = true, 2
			answers := mustGenerate(t, e, g).Completions
			var all sync.WaitGroup
			for i := range answers {
				all.Go(func() {
					c := &answers[i]
					text := slices.Concat(prompt, c.All())
					r, err := generate(t.Context(), e, scoring(text, len(prompt)-i))
					if err != nil || len(r.PromptScores) != len(c.All())+i {
						t.Errorf("%d scores for %d tokens, %v", len(r.PromptScores), len(c.All()), err)
						return
					}
					for k, s := range r.PromptScores[i:] {
						if math.Float32bits(s.Logprob) != math.Float32bits(c.Scores[k].Logprob) || !slices.Equal(s.Top, c.Scores[k].Top) {
							t.Errorf("completion %d, token %d: %v, generation said %v", i, k, s, c.Scores[k])
						}
					}
				})
			}
			all.Wait()
			if r := mustGenerate(t, e, g); fmt.Sprint(r.Completions) != fmt.Sprint(answers) {
				t.Error("the same answers differ after the scores")
			}
		})
	}
}

func TestPromptScoresEqualThoseOfAForwardPass(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	text := tokenize(t, m, story)
	e := newTestEngine(t, setup{cells: 1024, batch: 48, outputs: 8})
	rows := forward(t, m, text)
	r := mustGenerate(t, e, scoring(text, 1))
	for i, s := range r.PromptScores {
		row, token := rows[i], text[i+1]
		rank := 1
		for _, x := range row {
			if x > row[token] {
				rank++
			}
		}
		best := llama.Token(slices.Index(row, slices.Max(row)))
		if want := softmaxLog(row, token); math.Abs(float64(s.Logprob)-want) > 1e-4 || s.Rank != rank && testDevice == "" || s.Top[0].Token != best && testDevice == "" {
			t.Errorf("token %d: %+v, want logprob %g, rank %d, best %d", i+1, s, want, rank, best)
		}
	}
}

// Requests that begin with the same tokens compute these once, and only logits from ScoreFrom on.
func TestScoredPromptsShareTheirPrefill(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	text := tokenize(t, m, strings.Repeat(story, 9))[:300]
	e := newTestEngine(t, setup{cells: 4096, batch: 64, sequences: 40, outputs: 24, cfg: Config{Policy: Policy{MaxRunning: 16}}})
	var list []generation.Request
	for i := range 12 {
		list = append(list, scoring(slices.Concat(text, []llama.Token{llama.Token(i), llama.Token(2 * i), 3, 4}), len(text)))
	}
	admission, err := e.Admit(len(list), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer admission.Release()
	admission.GenerateAll(t.Context(), list, func(i int, r *generation.Result, err error) {
		if err != nil || len(r.PromptScores) != 4 || r.Completions[0].Finish != generation.FinishLength || len(r.Completions[0].Tokens) > 0 {
			t.Errorf("request %d: %+v, %v", i, r, err)
		}
	})
	if got, most := e.Stats().PrefillTokens, uint64(len(text)+len(list)*4); got > most {
		t.Errorf("%d rows of prompts, want %d at most", got, most)
	}
}

func TestScoresThatAreImpossibleAreRefused(t *testing.T) {
	e := newTestEngine(t, setup{})
	prompt := []llama.Token{1, 2, 3}
	for name, change := range map[string]func(*generation.Request){
		"no token to compute":       func(g *generation.Request) { g.ScoreFrom = 3 },
		"beyond the prompt":         func(g *generation.Request) { g.ScoreFrom, g.MaxTokens = 4, 1 },
		"neither scores nor tokens": func(g *generation.Request) { g.ScoreFrom = 0 },
		"masks without scores":      func(g *generation.Request) { g.Masks = true },
		"distinct ones":             func(g *generation.Request) { g.Distinct = &generation.Distinct{} },
	} {
		g := scoring(prompt, 1)
		if change(&g); g.MaxTokens == 0 && g.ScoreFrom == 1 && !g.Masks && g.Distinct == nil {
			t.Fatal(name)
		}
		if _, err := generate(t.Context(), e, g); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
