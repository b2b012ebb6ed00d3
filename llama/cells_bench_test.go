package llama

import (
	"fmt"
	"testing"
	"time"

	"agentd/llama/synth"
)

// BenchmarkFullCache is a decode step of 16 agents with 4 candidates each, and a token of
// their prompts, while many cells hold unused prefixes, as in a server that has run for a
// while.
func BenchmarkFullCache(b *testing.B) {
	m := shaped(b, synth.Spec{Layers: 6, Embedding: 256, FFN: 768, Heads: 4, KVHeads: 2, HeadDim: 64})
	for _, cached := range []int{0, 22_000, 118_000} {
		b.Run(fmt.Sprintf("cached=%d", cached), func(b *testing.B) { fullCache(b, m, cached) })
	}
}

func fullCache(b *testing.B, m *Model, cached int) {
	const each = 1000
	h := herd{agents: 16, candidates: 4, common: 300, prompt: 900}
	c := newContext(b, m, SetContext(cached+h.common+h.agents*(h.prompt-h.common+h.candidates*64)), SetBatch(512), SetMaxSequences(256), SetMaxOutputs(64), SetThreads(2, 2))
	var batch []Row
	for n := range cached {
		batch = append(batch, Row{Token(n % 200), Pos(n % each), SeqID(64 + n/each), false})
		if len(batch) == c.BatchSize() || n == cached-1 {
			if err := c.Decode(batch); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	const steps = 30
	var prefill, decode, fork time.Duration
	for b.Loop() {
		began := time.Now()
		var prefilled time.Time
		h.run(b, c, steps, func([][]float32) {
			if prefilled.IsZero() {
				prefilled = time.Now()
			}
		})
		decode += time.Since(prefilled)
		prefill += prefilled.Sub(began)
		began = time.Now()
		for s := range SeqID(h.agents * h.candidates) {
			if err := c.Memory().Remove(s, 0, -1); err != nil {
				b.Fatal(err)
			}
		}
		fork += time.Since(began)
	}
	n := float64(b.N)
	b.ReportMetric(float64(prefill.Microseconds())/n/float64(h.common+h.agents*(h.prompt-h.common)), "us/prompt-token")
	b.ReportMetric(float64(decode.Microseconds())/n/1e3/(steps-1), "ms/step")
	b.ReportMetric(float64(fork.Microseconds())/n/1e3, "ms/remove")
}
