package scheduler

import (
	"fmt"
	"testing"

	"agentd/llama/synth"
)

// BenchmarkGenerate generates 64 tokens for each of width candidates of one
// prompt. host-ns/step is the loop's time beside decoding and sampling.
func BenchmarkGenerate(b *testing.B) {
	for _, width := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("width=%d", width), func(b *testing.B) {
			m := testModel(b, synth.Qwen3)
			e := newTestEngine(b, setup{cells: 8192, sequences: 64, outputs: 32, batch: 256})
			g := sampled(tokenize(b, m, story), width, 64, 1)
			g.IgnoreEnd = true
			mustGenerate(b, e, g)
			before := e.Stats()
			b.ReportAllocs()
			for b.Loop() {
				mustGenerate(b, e, g)
			}
			s := e.Stats()
			steps := float64(s.Steps - before.Steps)
			times := s.Times
			b.ReportMetric(float64(s.GeneratedTokens-before.GeneratedTokens)/b.Elapsed().Seconds(), "tok/s")
			b.ReportMetric(float64(times.Plan+times.Commit-before.Plan-before.Commit)/steps, "host-ns/step")
			b.ReportMetric(float64(times.Sample-before.Sample)/steps, "sample-ns/step")
			b.ReportMetric(float64(times.Decode-before.Decode)/steps, "decode-ns/step")
		})
	}
}
