package llama

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"agentd/llama/synth"
)

// The probability of a draw is that of the softmax over what the mask has, and only that is drawn.
func TestMaskIsWhatADrawChoosesFrom(t *testing.T) {
	m := shared(t, synth.Qwen3)
	size := m.Vocab().Size()
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]float32, 2*size) // rows are parts of it: a draw of each logit would take most of the time
	for i := range noise {
		noise[i] = float32(random.NormFloat64() * 3)
	}
	grammar := `root ::= ("a" | "b" | "go" | "report" | [0-9])+ "."`
	for name, cfg := range map[string]SamplerConfig{
		"top-p and a grammar":         {Temperature: 1, TopP: 0.9, Grammar: grammar},
		"top-p, top-k and a grammar":  {Temperature: 1, TopP: 0.9, TopK: 20, Grammar: grammar},
		"min-p and a grammar":         {Temperature: 0.7, MinP: 0.05, Grammar: grammar},
		"temperature and a grammar":   {Temperature: 1.5, Grammar: grammar},
		"top-k":                       {Temperature: 1, TopK: 5},
		"min-p with suppressed ones":  {Temperature: 1, TopP: 0.9, MinP: 0.2, Suppress: []Token{5, 6}},
		"temperature alone: too many": {Temperature: 1},
		"greedy with a grammar":       {Grammar: grammar},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2)) // all cases have the same rows
			for seed := range uint32(20) {
				cfg.Seed, cfg.Score, cfg.Mask = seed, true, 300
				s := newSampler(t, m, cfg)
				for range 8 {
					at := rng.IntN(size)
					row := slices.Clone(noise[at : at+size])
					token, err := s.Sample(row)
					if err != nil {
						t.Fatal(err)
					}
					mask := s.Mask()
					if cfg.Grammar == "" && cfg.TopK == 0 && cfg.TopP == 0 {
						if mask != nil {
							t.Fatalf("%d tokens of %d, want none", len(mask), size)
						}
						continue
					}
					if !slices.IsSorted(mask) || !slices.Contains(mask, token) {
						t.Fatalf("%d is not in %v", token, mask)
					}
					sum, temperature := 0.0, float64(cfg.Temperature)
					if temperature == 0 {
						temperature = 1
					}
					for _, id := range mask {
						sum += math.Exp((float64(row[id]) - float64(row[token])) / temperature)
					}
					if drawn := s.Score().Drawn; math.Abs(drawn+math.Log(sum)) > 1e-12 {
						t.Fatalf("the logprob is %g over %d tokens, want %g", drawn, len(mask), -math.Log(sum))
					}
					if m.Vocab().IsEOG(token) {
						break
					}
				}
			}
		})
	}
}

func TestRowsHaveTheScoresOfTheSampler(t *testing.T) {
	m := shared(t, synth.Qwen3)
	rng := rand.New(rand.NewPCG(3, 4))
	var rows [][]float32
	var tokens []Token
	var want []Ranked
	for range 40 {
		row := make([]float32, m.Vocab().Size())
		for i := range row {
			row[i] = float32(rng.NormFloat64() * 3)
		}
		s := newSampler(t, m, SamplerConfig{Temperature: 1, Seed: rng.Uint32(), Score: true, Top: 3})
		token, err := s.Sample(row)
		if err != nil {
			t.Fatal(err)
		}
		rank := 1
		for _, x := range row {
			if x > row[token] {
				rank++
			}
		}
		rows, tokens = append(rows, row), append(tokens, token)
		want = append(want, Ranked{s.Score().Model, rank, s.Top(nil)})
	}
	for i, got := range ScoreRows(2, rows, tokens, 3) {
		if got.Logprob != want[i].Logprob || got.Rank != want[i].Rank || !slices.Equal(got.Top, want[i].Top) {
			t.Errorf("row %d: %+v, the sampler says %+v", i, got, want[i])
		}
	}
	if got := ScoreRows(1, rows[:1], tokens[:1], 0); len(got) != 1 || len(got[0].Top) > 0 {
		t.Errorf("without others: %+v", got)
	}
}
