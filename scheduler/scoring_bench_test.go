package scheduler

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/generation"
)

// BenchmarkScoring scores rows of 32 tokens after a prompt of 1,000 with 103 M parameters in BF16. It reports the time of
// 64 rows in one call as a multiple of that of one row, with the prompt computed and with the prompt cached, and of
// that of 64 calls without a prefix cache.
func BenchmarkScoring(b *testing.B) {
	const prompt, row, rows = 1000, 32, 64
	spec, err := synth.Preset("0.1b", synth.Qwen3)
	if err != nil {
		b.Fatal(err)
	}
	spec.Type = "bf16"
	path, err := synth.Cached("", spec)
	if err != nil {
		b.Fatal(err)
	}
	m, err := llama.New(path)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Free()
	options := []llama.ContextOption{
		llama.SetContext(8192), llama.SetBatch(512), llama.SetMaxSequences(128), llama.SetMaxOutputs(128), llama.SetThreads(2, 2),
	}
	e, err := New(context.Background(), []Context{{Model: m, Options: options}}, Config{Policy: Policy{MaxRunning: 64}}, zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	draw := rand.New(rand.NewPCG(1, 2))
	tokens := func(n int) (list []llama.Token) {
		for range n {
			list = append(list, llama.Token(draw.IntN(100000)))
		}
		return list
	}
	score := func(first []llama.Token, n int) time.Duration {
		var list []generation.Request
		for range n {
			list = append(list, scoring(append(first[:len(first):len(first)], tokens(row)...), len(first)))
			list[len(list)-1].Top = 0
		}
		admission, err := e.Admit(n, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer admission.Release()
		began := time.Now()
		admission.GenerateAll(b.Context(), list, func(_ int, _ *generation.Result, err error) {
			if err != nil {
				b.Error(err)
			}
		})
		return time.Since(began)
	}
	var one, all, cachedOne, cachedAll time.Duration
	for b.Loop() {
		first, second := tokens(prompt), tokens(prompt)
		one += score(first, 1)
		cachedOne += score(first, 1)
		all += score(second, rows)
		cachedAll += score(second, rows)
	}
	n := float64(b.N)
	b.ReportMetric(one.Seconds()*1000/n, "ms/row")
	b.ReportMetric(float64(all)/float64(one), "x-64-rows")
	b.ReportMetric(float64(cachedAll)/float64(cachedOne), "x-64-rows-cached")
	b.ReportMetric(float64(all)/float64(rows*one), "of-64-calls")
}
