package scheduler

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/generation"
)

// forward is a plain forward pass over tokens: the logits after each of them.
func forward(t testing.TB, m *llama.Model, tokens []llama.Token) [][]float32 {
	t.Helper()
	c, err := m.NewContext(
		llama.SetContext(len(tokens)+1), llama.SetBatch(64), llama.SetMaxOutputs(64), llama.SetThreads(1, 1),
		llama.SetKVType("f32"), llama.SetFlashAttention(false),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var rows [][]float32
	for at := 0; at < len(tokens); at += 64 {
		chunk := tokens[at:min(at+64, len(tokens))]
		b := make([]llama.Row, len(chunk))
		for i, token := range chunk {
			b[i] = llama.Row{Token: token, Pos: llama.Pos(at + i), Output: true}
		}
		if err := c.Decode(b); err != nil {
			t.Fatal(err)
		}
		for i := range chunk {
			row, err := c.Logits(i)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, slices.Clone(row))
		}
	}
	return rows
}

// softmaxLog is the logarithm of a token's probability, in doubles.
func softmaxLog(row []float32, token llama.Token) float64 {
	most, sum := float64(slices.Max(row)), 0.0
	for _, x := range row {
		sum += math.Exp(float64(x) - most)
	}
	return float64(row[token]) - most - math.Log(sum)
}

// scoredTokens is the number of tokens that a case compares; AGENTD_SCORED_TOKENS asks for more.
func scoredTokens(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("AGENTD_SCORED_TOKENS"))
	if err != nil {
		return 200
	}
	return n
}

// guessable leaves one choice of two in each call, so that speculative tokens are often right.
const guessable = `root ::= call ("\n" call){5,9}
call ::= "<tool_call>{\"name\": \"" ("go_to" | "report") "\"}</tool_call>"`

// The logprobs of sampled tokens equal the logprobs of a plain forward pass of the same tokens.
func TestScoresEqualThoseOfAForwardPass(t *testing.T) {
	drafts := Config{Policy: Policy{DraftRows: 24, MaxRunning: 8}}
	for _, test := range []struct {
		name, arch string
		cfg        Config
		free       bool // without a grammar
		greedy     bool
		forced     bool // forced tokens are expected
		drafted    bool
	}{
		{name: "free text", arch: synth.Qwen3, cfg: Config{Policy: Policy{MaxRunning: 8}}, free: true},
		{name: "grammar without forced tokens", arch: synth.Qwen3, cfg: Config{Policy: Policy{MaxRunning: 8}, NoForcedTokens: true}},
		{name: "forced tokens", arch: synth.Qwen3, cfg: Config{Policy: Policy{MaxRunning: 8}}, forced: true},
		{name: "drafts", arch: synth.Qwen3, cfg: Config{Policy: Policy{DraftRows: 24, MaxRunning: 8}, NoForcedTokens: true}, drafted: true},
		{name: "forced tokens and drafts", arch: synth.Qwen3, cfg: drafts, forced: true, drafted: true},
		{name: "greedy", arch: synth.Llama, cfg: drafts, greedy: true, forced: true, drafted: true},
		{name: "sliding window", arch: synth.GPTOSS, cfg: drafts, forced: true},
		{name: "recurrent state", arch: synth.Qwen35, cfg: drafts, forced: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := testModel(t, test.arch)
			prompt := tokenize(t, m, story)
			e := newTestEngine(t, setup{arch: test.arch, cells: 4096, batch: 48, outputs: 24, cfg: test.cfg})
			worst, compared, forced, drafted := 0.0, 0, 0, 0
			for turn := 0; compared < scoredTokens(t); turn++ {
				g := sampled(prompt[turn%7:], 1+turn%8, 40+turn%90, uint32(100*turn))
				if test.greedy {
					g = greedy(prompt[turn%len(prompt):], 1, 40+turn%90)
				}
				if !test.free {
					g = constrained(g)
				}
				if test.forced && test.drafted {
					g.Grammar = guessable
				}
				g.Scores = true
				for _, c := range mustGenerate(t, e, g).Completions {
					tokens := slices.Clone(c.Tokens)
					if c.Stop != "" {
						tokens = append(tokens, c.StopToken)
					}
					if len(c.Scores) != len(tokens) {
						t.Fatalf("%d scores for %d tokens", len(c.Scores), len(tokens))
					}
					rows := forward(t, m, slices.Concat(g.Prompt, tokens))[len(g.Prompt)-1:]
					for i, s := range c.Scores {
						if s.Forced {
							if s.Logprob == s.Logprob || s.Masked != 0 {
								t.Fatalf("turn %d, token %d of %d: %+v", turn, i, len(tokens), s)
							}
							forced++
							continue
						}
						off := math.Abs(float64(s.Logprob) - softmaxLog(rows[i], tokens[i]))
						if worst = max(worst, off); !(off <= 1e-3) {
							t.Fatalf("turn %d, token %d of %d (%+v): %g off", turn, i, len(tokens), s, off)
						}
						if test.greedy && s.Masked != 0 || !(s.Masked <= 1e-5) {
							t.Fatalf("turn %d, token %d of %d: %+v", turn, i, len(tokens), s)
						}
						if s.Drafted {
							drafted++
						}
					}
					compared += len(tokens)
				}
			}
			t.Logf("%d tokens, at most %.2g off; %d forced, %d drafted", compared, worst, forced, drafted)
			if (forced > 0) != test.forced || (drafted > 0) != test.drafted {
				t.Errorf("%d forced and %d drafted tokens, want some: %t, %t", forced, drafted, test.forced, test.drafted)
			}
		})
	}
}

// Scores change no choice.
func TestScoresChangeNoCompletion(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	prompt := tokenize(t, m, story)
	e, _ := newScribes(t, synth.Qwen3, prompt, Config{Policy: Policy{DraftRows: 16, MaxRunning: 8}})
	for name, g := range map[string]generation.Request{
		"greedy":    constrained(greedy(prompt, 1, 400)),
		"sampled":   constrained(sampled(prompt, 8, 400, 7)),
		"free":      sampled(prompt, 5, 100, 9),
		"cut off":   constrained(sampled(prompt, 3, 17, 90)),
		"repeating": {Prompt: prompt, Params: generation.Params{N: 2, MaxTokens: 300, Seeds: []uint32{1, 2}, StopRepeats: true}},
	} {
		t.Run(name, func(t *testing.T) {
			plain := mustGenerate(t, e, g)
			g.Scores = true
			scored := mustGenerate(t, e, g)
			if diff := cmp.Diff(plain.Completions, scored.Completions, cmpopts.IgnoreFields(generation.Completion{}, "Scores")); diff != "" {
				t.Error(diff)
			}
			for i, c := range scored.Completions {
				want := len(c.Tokens)
				if c.Stop != "" {
					want++
				}
				if len(c.Scores) != want || len(plain.Completions[i].Scores) != 0 {
					t.Errorf("candidate %d: %d scores, %d when not asked, want %d and none", i, len(c.Scores), len(plain.Completions[i].Scores), want)
				}
				for k, s := range c.Scores {
					if known := s.Logprob == s.Logprob; known == s.Forced {
						t.Errorf("candidate %d: token %d of %d, forced %t, has a logprob: %t", i, k, want, s.Forced, known)
					}
				}
			}
		})
	}
}

func TestScoresOfSampledTokensAddNoRow(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	prompt := tokenize(t, m, story)
	rows := map[bool]uint64{}
	for _, scores := range []bool{false, true} {
		e := newTestEngine(t, setup{cells: 4096, batch: 64, outputs: 16, cfg: Config{Policy: Policy{MaxRunning: 16}}})
		g := constrained(sampled(prompt, 8, 60, 3))
		g.Scores = scores
		forced := 0
		for _, c := range mustGenerate(t, e, g).Completions {
			for _, s := range c.Scores {
				if s.Forced {
					forced++
				}
			}
		}
		if (forced > 0) != scores {
			t.Errorf("%d forced tokens with scores %t", forced, scores)
		}
		rows[scores] = e.Stats().Rows
	}
	if rows[false] != rows[true] {
		t.Errorf("%d rows without scores, %d with", rows[false], rows[true])
	}
}

// BenchmarkScores compares steps without and with scores.
func BenchmarkScores(b *testing.B) {
	m := testModel(b, synth.Qwen3)
	prompt := tokenize(b, m, story)
	e := newTestEngine(b, setup{cells: 4096, batch: 64, outputs: 16, cfg: Config{Policy: Policy{MaxRunning: 16}}})
	for _, scores := range []bool{false, true} {
		b.Run(fmt.Sprint("scores=", scores), func(b *testing.B) {
			before := e.Stats().Steps
			for i := range b.N {
				g := constrained(sampled(prompt, 16, 60, uint32(i)))
				g.Scores = scores
				mustGenerate(b, e, g)
			}
			b.ReportMetric(float64(e.Stats().Steps-before)/float64(b.N), "steps/op")
		})
	}
}
