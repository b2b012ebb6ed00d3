//go:build !race

package llama

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"agentd/llama/synth"
)

func TestTruncationWithoutTopKDrawsFromTheRest(t *testing.T) {
	m := shared(t, synth.Qwen3)
	for _, cfg := range []SamplerConfig{
		{Temperature: 0.7, TopP: 0.3}, {Temperature: 0.7, TopP: 0.95}, {Temperature: 2, MinP: 0.01}, {Temperature: 1, MinP: 0.3},
		{Temperature: 1.5, TopP: 0.9, MinP: 0.05}, {Temperature: 1, TopP: 0.999999},
	} {
		for _, spread := range []float32{1, 3} { // a flat row, and one with likely tokens
			t.Run(fmt.Sprintf("%+v spread %v", cfg, spread), func(t *testing.T) {
				row := randomRow(m, 6)
				type odds struct {
					token Token
					logit float64
				}
				all := make([]odds, len(row))
				sum := 0.0
				for i := range row {
					row[i] *= spread
					all[i] = odds{Token(i), float64(row[i])}
				}
				slices.SortStableFunc(all, func(a, b odds) int { return cmp.Compare(b.logit, a.logit) })
				for _, o := range all {
					sum += math.Exp(o.logit - all[0].logit)
				}
				run, left := 0.0, 0
				for ; left < len(all); left++ {
					if cfg.MinP > 0 && all[left].logit < all[0].logit+math.Log(float64(cfg.MinP)) {
						break
					}
					if run += math.Exp(all[left].logit - all[0].logit); cfg.TopP > 0 && run >= float64(cfg.TopP)*sum {
						left++
						break
					}
				}
				place, total := map[Token][2]float64{}, 0.0
				for _, o := range all[:left] {
					w := math.Exp((o.logit - all[0].logit) / float64(cfg.Temperature))
					place[o.token] = [2]float64{total, total + w}
					total += w
				}
				cfg.Seed = 12
				s := newSampler(t, m, cfg)
				sorted := left <= 4096
				for position := range uint64(60) {
					token, err := s.Sample(row)
					if err != nil {
						t.Fatal(err)
					}
					at, ok := place[token]
					u := uniform(12, position, 0) * total
					if !ok || sorted && (at[0] > u+1e-4*total || at[1] < u-1e-4*total) {
						t.Fatalf("draw %d of %d tokens: token %d (left: %v) has %v, drawn was %v", position, left, token, ok, at, u)
					}
				}
			})
		}
	}
}
