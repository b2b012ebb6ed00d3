//go:build !race

package llama

import (
	"fmt"
	"math"
	"testing"

	"agentd/llama/synth"
)

// logprob is the logarithm of a softmax in doubles.
func logprob(row []float32, t Token) float64 {
	most := math.Inf(-1)
	for _, x := range row {
		most = max(most, float64(x))
	}
	sum := 0.0
	for _, x := range row {
		sum += math.Exp(float64(x) - most)
	}
	return float64(row[t]) - most - math.Log(sum)
}

func TestScoreOfModelIsThatOfTheSoftmax(t *testing.T) {
	m := shared(t, synth.Qwen3)
	for seed := range uint64(20) {
		row := peaked(randomRow(m, seed))
		s, err := m.NewSampler(SamplerConfig{Temperature: 2, Seed: uint32(seed), Score: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			token := mustSample(t, s, row)
			if got, want := float64(s.Score().Model), logprob(row, token); math.Abs(got-want) > 1e-5 {
				t.Fatalf("row %d, token %d: %g, want %g", seed, token, got, want)
			}
		}
		s.Close()
	}
}

// What a score says is how often the token is drawn, whatever the grammar and the settings.
func TestScoresAreTheFrequenciesOfDraws(t *testing.T) {
	m := shared(t, synth.Qwen3)
	grammars := map[string]string{
		"no grammar": "",
		"few tokens": `root ::= "ab" [a-z]+ | "ac" | "b" [0-9]+`,
		"most":       `root ::= [^aeiou]+`,
	}
	settings := map[string]SamplerConfig{
		"temperature":     {Temperature: 0.7},
		"hot":             {Temperature: 1.5},
		"top-k":           {Temperature: 1, TopK: 12},
		"top-p":           {Temperature: 1, TopP: 0.8},
		"min-p":           {Temperature: 0.9, MinP: 0.05},
		"all":             {Temperature: 0.6, TopK: 20, TopP: 0.95, MinP: 0.01},
		"control removed": {Temperature: 1, TopK: 8, SuppressControl: true, Suppress: []Token{1, 2, 3, 100, 101}},
	}
	for named, grammar := range grammars {
		for name, cfg := range settings {
			t.Run(named+", "+name, func(t *testing.T) {
				cfg.Grammar, cfg.Score = grammar, true
				draws := 400
				if named == "most" { // a second try may list the vocabulary
					draws = 30
				}
				frequenciesAgree(t, m, cfg, draws)
			})
		}
	}
}

func frequenciesAgree(t *testing.T, m *Model, cfg SamplerConfig, draws int) {
	row := peaked(randomRow(m, 7))
	first, err := m.NewSampler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	cfg.Score = false
	plain, err := m.NewSampler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	counts, odds := map[Token]int{}, map[Token]float64{}
	for seed := range uint32(draws) {
		s, err := first.CloneSeed(seed)
		if err != nil {
			t.Fatal(err)
		}
		token := mustSample(t, s, row)
		score := s.Score()
		if counts[token] == 0 {
			if got, want := float64(score.Model), logprob(row, token); math.Abs(got-want) > 1e-4 {
				t.Fatalf("token %d: the model's is %g, want %g", token, got, want)
			}
		}
		p := math.Exp(score.Drawn)
		if before, seen := odds[token]; seen && math.Abs(before-p) > 1e-4*before {
			t.Fatalf("token %d is drawn with %g, and before with %g", token, p, before)
		}
		counts[token], odds[token] = counts[token]+1, p
		_ = s.Close()
		if seed < 50 {
			s, err := plain.CloneSeed(seed)
			if err != nil {
				t.Fatal(err)
			}
			if other := mustSample(t, s, row); other != token {
				t.Fatalf("seed %d: token %d with scores, %d without", seed, token, other)
			}
			_ = s.Close()
		}
	}
	sum, drawn, all := 0.0, 0, float64(draws)
	for token, p := range odds {
		sum += p
		drawn += counts[token]
		if got, off := float64(counts[token])/all, 5*math.Sqrt(p*(1-p)/all)+2/all; math.Abs(got-p) > off {
			t.Errorf("token %d has the odds %g and was drawn with %g", token, p, got)
		}
	}
	if sum > 1.001 || drawn != draws {
		t.Errorf("the odds of %d tokens add up to %g", len(odds), sum)
	}
	if cfg.TopK > 0 && sum < 0.9 {
		t.Errorf("the odds of all %d tokens add up to %g", len(odds), sum)
	}
}

func TestGreedyAndUnscoredTokensHaveNoOdds(t *testing.T) {
	m := shared(t, synth.Qwen3)
	row := randomRow(m, 3)
	for _, scored := range []bool{true, false} {
		t.Run(fmt.Sprint(scored), func(t *testing.T) {
			s, err := m.NewSampler(SamplerConfig{Grammar: `root ::= [a-f]+`, Score: scored})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			token := mustSample(t, s, row)
			want := 0.0
			if scored {
				want = logprob(row, token)
			}
			if got := s.Score(); got.Drawn != 0 || math.Abs(float64(got.Model)-want) > 1e-4 {
				t.Errorf("score %+v, want the model's %g and no odds", got, want)
			}
		})
	}
}

// A refused token with nearly all of the probability leaves the others their shares.
func TestScoreOfChoiceAfterLikelyTokenIsRefused(t *testing.T) {
	m := shared(t, synth.Qwen3)
	row := make([]float32, m.Vocab().Size())
	for i := range row {
		row[i] = -60
	}
	likely := map[Token]float64{}
	for text, x := range map[string]float32{"a": 3, "b": 2.5, "1": 2, "the": 1} {
		token := tokenize(t, m, text)[0]
		row[token], likely[token] = x, float64(x)
	}
	row[tokenize(t, m, `"`)[0]] = 40
	for name, cfg := range map[string]SamplerConfig{
		"temperature": {Temperature: 0.8},
		"top-k":       {Temperature: 0.8, TopK: 20},
		"top-p":       {Temperature: 0.8, TopP: 0.9999},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Grammar, cfg.Score = `root ::= [^"]{5} "\""`, true
			first := newSampler(t, m, cfg)
			sum := 0.0
			for _, x := range likely {
				sum += math.Exp(x / 0.8)
			}
			children, _, err := first.Children(row, 1e-5, nil)
			if err != nil || len(children) < len(likely) {
				t.Fatalf("%d children, %v", len(children), err)
			}
			for _, c := range children[:len(likely)] {
				if want := likely[c.Token]/0.8 - math.Log(sum); math.Abs(float64(c.Logprob)-want) > 1e-3 {
					t.Errorf("child %d has %g, want %g", c.Token, c.Logprob, want)
				}
			}
			for seed := range uint32(8) {
				s, err := first.CloneSeed(seed)
				if err != nil {
					t.Fatal(err)
				}
				token := mustSample(t, s, row)
				want := likely[token]/0.8 - math.Log(sum)
				if got := s.Score().Drawn; math.Abs(got-want) > 1e-3 {
					t.Errorf("token %d was drawn with %g, want %g", token, got, want)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
