package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/core"
)

// stopwatch records the time of each step and its number of decode rows. The prompts of the
// tests are longer than one row.
type stopwatch struct {
	backend
	mu    sync.Mutex
	steps []timed
}

type timed struct {
	decodes, prompt int // rows
	took            time.Duration
}

func (s *stopwatch) Decode(rows []core.Row) error {
	began := time.Now()
	err := s.backend.Decode(rows)
	t := timed{took: time.Since(began)}
	for i, r := range rows {
		if i > 0 && rows[i-1].Seq == r.Seq || i+1 < len(rows) && rows[i+1].Seq == r.Seq {
			t.prompt++
		} else {
			t.decodes++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, t)
	return err
}

// where returns the steps that f accepts, the shortest first.
func (s *stopwatch) where(f func(timed) bool) []timed {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(s.steps), func(t timed) bool { return !f(t) })
	slices.SortFunc(list, func(a, b timed) int { return int(a.took - b.took) })
	return list
}

func sum(list []timed) (total time.Duration) {
	for _, t := range list {
		total += t.took
	}
	return total
}

// BenchmarkLongPrompt is a prompt of 8,000 tokens that arrives while 32 candidates decode. It
// measures how much longer a step takes, in the median and the 99th percentile: the time
// between two tokens of the others. And it measures the throughput of both together, as a
// share of the throughput one after the other.
func BenchmarkLongPrompt(b *testing.B) {
	b.Run("shape=household", func(b *testing.B) {
		longPrompts(b, synth.Spec{Layers: 6, Embedding: 256, FFN: 768, Heads: 4, KVHeads: 2, HeadDim: 64})
	})
	b.Run("shape=0.6b-4layers", func(b *testing.B) {
		longPrompts(b, synth.Spec{Layers: 4, Embedding: 1024, FFN: 3072, Heads: 16, KVHeads: 8, HeadDim: 128})
	})
}

// longPrompts measures a Qwen 3 of the shape of spec, with steps as they are made for
// the prompt and with steps of 256 of its tokens.
func longPrompts(b *testing.B, spec synth.Spec) {
	const width, long = 32, 8000
	spec.Arch, spec.Name, spec.Type, spec.Seed, spec.Small, spec.Context = synth.Qwen3, "bench", "q8_0", 1, true, 32768
	path, err := synth.Cached("", spec)
	if err != nil {
		b.Fatal(err)
	}
	m, err := llama.New(path)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Free()
	for _, chunk := range []int{0, 256} {
		b.Run(fmt.Sprintf("chunk=%d", chunk), func(b *testing.B) {
			var atMedian, at99, kept float64
			for b.Loop() {
				median, p99, share := longPrompt(b, m, width, long, chunk)
				atMedian, at99, kept = atMedian+median, at99+p99, kept+share
			}
			n := float64(b.N)
			b.ReportMetric(atMedian/n, "x-step-p50")
			b.ReportMetric(at99/n, "x-step-p99")
			b.ReportMetric(kept/n, "throughput")
		})
	}
}

func longPrompt(b *testing.B, m *llama.Model, width, long, chunk int) (atMedian, at99, kept float64) {
	c, err := m.NewContext(llama.SetContext(1<<17), llama.SetBatch(512), llama.SetMaxSequences(64), llama.SetMaxOutputs(64), llama.SetThreads(2, 2))
	if err != nil {
		b.Fatal(err)
	}
	cfg := Config{Policy: Policy{PrefillChunk: chunk}}
	if err := cfg.complete(c); err != nil {
		b.Fatal(err)
	}
	watch := &stopwatch{backend: newContextBackend(c)}
	e, err := newEngine([]workerParts{{Context{Model: m, Device: "CPU"}, c, watch}}, cfg, zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	e.start()
	defer e.Close()
	prompt := make([]llama.Token, long)
	for i := range prompt {
		prompt[i] = llama.Token(i%200 + 10)
	}
	mustGenerate(b, e, greedy(prompt, 1, 1)) // alone, for the speed of prefill
	alone := watch.where(func(t timed) bool { return t.prompt > 0 })
	var others sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	running := func(first llama.Token, length, n, tokens int) {
		p := make([]llama.Token, length)
		for i := range p {
			p[i] = first + llama.Token(i%50)
		}
		g := greedy(p, n, tokens)
		g.IgnoreEnd = true
		others.Go(func() {
			if _, err := generate(ctx, e, g); !errors.Is(err, context.Canceled) {
				b.Errorf("the others ended too early: %v", err)
			}
		})
	}
	for i := range width / 4 {
		running(llama.Token(20+i), 600, 4, 3000)
	}
	decoding := func() []timed { return watch.where(func(t timed) bool { return t.decodes == width && t.prompt == 0 }) }
	const some = 60
	wait := func(n int) {
		for len(decoding()) < n {
			time.Sleep(time.Millisecond)
		}
	}
	wait(some)
	mustGenerate(b, e, greedy(append(slices.Clone(prompt), 9)[1:], 1, 1)) // shifted by one, so nothing is cached
	// The other sequences have grown meanwhile. The time of a step without the prompt is the
	// mean of before and after.
	before := len(decoding())
	wait(before + some)
	without := decoding()
	cancel()
	with := watch.where(func(t timed) bool { return t.decodes == width && t.prompt > 1 })
	if len(with) == 0 || len(without) == 0 {
		b.Fatal("the prompt and the others did not meet")
	}
	others.Wait()
	at := func(list []timed, percent int) float64 { return float64(list[(len(list)-1)*percent/100].took) }
	mean := float64(sum(without)) / float64(len(without))
	rows := 0
	for _, t := range with {
		rows += t.prompt
	}
	apart := mean*float64(len(with)) + float64(sum(alone))/float64(long)*float64(rows)
	return at(with, 50) / mean, at(with, 99) / at(without, 99), apart / float64(sum(with))
}
