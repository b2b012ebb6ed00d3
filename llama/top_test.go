//go:build !race

package llama

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"agentd/llama/synth"
)

func TestTopIsTheMostProbableTokensWhateverMayBeDrawn(t *testing.T) {
	m := shared(t, synth.Qwen3)
	for _, cfg := range []SamplerConfig{
		{}, {Temperature: 1}, {Temperature: 1, TopK: 2, TopP: 0.5}, {Temperature: 1, Grammar: `root ::= "ab" [a-z]+`}, {Suppress: []Token{1, 2, 3}},
	} {
		for _, k := range []int{0, 1, 5, 20} {
			row := peaked(randomRow(m, uint64(k)))
			row[7], row[9] = row[8], row[8] // equal ones are in the order of their ids
			cfg.Score, cfg.Top = true, k
			s, err := m.NewSampler(cfg)
			if err != nil {
				t.Fatal(err)
			}
			mustSample(t, s, row)
			all := make([]Token, len(row))
			for i := range all {
				all[i] = Token(i)
			}
			slices.SortFunc(all, func(a, b Token) int { return cmp.Or(cmp.Compare(row[b], row[a]), int(a-b)) })
			got := s.Top(nil)
			if len(got) != k {
				t.Fatalf("%+v: %d tokens, want %d", cfg, len(got), k)
			}
			for i, c := range got {
				if c.Token != all[i] || math.Abs(float64(c.Logprob)-logprob(row, all[i])) > 1e-5 {
					t.Errorf("%+v: place %d is %+v, want token %d with %g", cfg, i, c, all[i], logprob(row, all[i]))
				}
			}
			s.Close()
		}
	}
}
