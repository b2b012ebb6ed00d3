package llama

import (
	"math"
	"testing"

	"agentd/llama/synth"
)

// A list of children has the odds of the tokens that are drawn, and all of them.
func TestChildrenAreWhatSampleDraws(t *testing.T) {
	m := shared(t, synth.Qwen3)
	grammars := map[string]string{"no grammar": "", "few tokens": `root ::= "ab" [a-z]+ | "ac" | "b" [0-9]+`, "most": `root ::= [^aeiou]+`}
	settings := map[string]SamplerConfig{
		"temperature": {Temperature: 0.7},
		"hot":         {Temperature: 1.5},
		"top-k":       {Temperature: 1, TopK: 12},
		"top-p":       {Temperature: 1, TopP: 0.8},
		"min-p":       {Temperature: 0.9, MinP: 0.05},
		"all":         {Temperature: 0.6, TopK: 20, TopP: 0.95, MinP: 0.01, SuppressControl: true},
	}
	for named, grammar := range grammars {
		for name, cfg := range settings {
			t.Run(named+", "+name, func(t *testing.T) {
				cfg.Grammar, cfg.Score = grammar, true
				row := peaked(randomRow(m, 7))
				first, err := m.NewSampler(cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer first.Close()
				list, err := first.Children(row, nil)
				if err != nil {
					t.Fatal(err)
				}
				odds, sum := map[Token]float64{}, 0.0
				for _, c := range list {
					if _, twice := odds[c.Token]; twice {
						t.Errorf("token %d is listed twice", c.Token)
					}
					odds[c.Token] = math.Exp(float64(c.Logprob))
					sum += odds[c.Token]
				}
				if math.Abs(sum-1) > 1e-4 {
					t.Errorf("the probabilities of %d tokens sum up to %g", len(list), sum)
				}
				for seed := range uint32(40) {
					s, err := first.CloneSeed(seed)
					if err != nil {
						t.Fatal(err)
					}
					token := mustSample(t, s, row)
					want := math.Exp(float64(s.Score().Drawn))
					if got := odds[token]; math.Abs(got-want) > 1e-3*want+1e-5 {
						t.Errorf("token %d is listed with %g and drawn with %g", token, got, want)
					}
					_ = s.Close()
				}
			})
		}
	}
}

func TestChildrenRefusesSamplersAndRowsOfOtherKinds(t *testing.T) {
	m := shared(t, synth.Qwen3)
	row := randomRow(m, 1)
	for name, cfg := range map[string]SamplerConfig{"greedy": {Score: true}, "no scores": {Temperature: 1}} {
		if _, err := newSampler(t, m, cfg).Children(row, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s := newSampler(t, m, SamplerConfig{Temperature: 1, Score: true})
	if _, err := s.Children(row[1:], nil); err == nil {
		t.Error("short row: no error")
	}
	nan := float32(math.NaN())
	for i := range row {
		row[i] = nan
	}
	if _, err := s.Children(row, nil); err == nil {
		t.Error("row without a number: no error")
	}
}
