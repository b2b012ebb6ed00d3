package scheduler

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// readings are the logits that the contexts of an engine have read, by the tokens before them.
type readings struct {
	mu    sync.Mutex
	rows  map[string]reading
	again int // rows that were read before
	other int // of these rows, the ones with other bits
}

// block is what was saved: tokens at positions from from on.
type block struct {
	from   int
	tokens []llama.Token
}

// bits records the readings of one context.
type bits struct {
	*recorder
	all    *readings
	blocks map[core.BlockID]block
}

func (b *bits) Apply(o core.Op) error {
	switch o.Kind {
	case core.OpSave:
		b.blocks[o.Block] = block{o.Pos, slices.Clone(b.seqs[o.Seq][o.Pos:o.End])}
	case core.OpLoad:
		saved := b.blocks[o.Block]
		b.seqs[o.Seq] = append(b.seqs[o.Seq], saved.tokens[o.Pos-saved.from:o.End-saved.from]...)
	}
	return b.recorder.Apply(o)
}

func (b *bits) Logits(i int) ([]float32, error) {
	logits, err := b.recorder.Logits(i)
	if err != nil {
		return nil, err
	}
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	key := fmt.Sprint(b.contexts[i])
	if was, ok := b.all.rows[key]; ok {
		b.all.again++
		if !sameBits(was.logits, logits) {
			b.all.other++
		}
		return logits, nil
	}
	b.all.rows[key] = b.read[key]
	return logits, nil
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// Batch invariance: the bits of a row depend on its tokens only. A random
// history has prompts that share prefixes, cancels, preemptions, evictions, copies
// from host memory, chunks and speculative tokens.
func TestLogitsAreBitwiseThoseOfGenerationAlone(t *testing.T) {
	if testDevice != "" || !llama.SharedAttention() {
		t.Skip("other kernels compute than our own for the CPU")
	}
	preemptions := uint64(0)
	for _, arch := range []string{synth.Qwen2, synth.Qwen3, synth.Qwen3MoE, synth.Llama, synth.GPTOSS, synth.Qwen35} {
		weights := []string{"f32", "f16", "bf16", "q8_0"}
		if arch == synth.GPTOSS || arch == synth.Qwen3MoE {
			weights = append(weights, "mxfp4")
		}
		for i, weight := range weights {
			kv := []string{"f16", "q8_0"}[i%2]
			t.Run(fmt.Sprint(arch, " ", weight, " ", kv), func(t *testing.T) { preemptions += checkInvariance(t, arch, weight, kv) })
		}
	}
	if preemptions == 0 {
		t.Error("no history has a preemption")
	}
}

func checkInvariance(t *testing.T, arch, weight, kv string) (preemptions uint64) {
	spec, err := synth.Preset("tiny", arch)
	if err != nil {
		t.Fatal(err)
	}
	spec.Type, spec.Small, spec.Embedding, spec.HeadDim = weight, true, 128, 32
	path, err := synth.Cached("", spec)
	if err != nil {
		t.Fatal(err)
	}
	m, err := llama.New(path)
	if err != nil {
		t.Fatal(err)
	}
	all := &readings{rows: map[string]reading{}}
	cfg := Config{Policy: Policy{DraftRows: 8, HostCells: 128}}
	if arch == synth.GPTOSS || arch == synth.Qwen35 {
		cfg.DraftRows, cfg.HostCells = 0, 0 // their memory cannot be cut
	}
	e := newTestEngine(t, setup{
		model: m, contexts: 2, cells: 256, sequences: 9, outputs: 8, batch: 40, cfg: cfg,
		options: func(i int) []llama.ContextOption {
			return []llama.ContextOption{llama.SetThreads(1+i, 1+i), llama.SetKVType(kv), llama.SetFlashAttention(true)}
		},
		wrapEach: func(_ int, b backend) backend {
			return &bits{recorder: newRecorder(b), all: all, blocks: map[core.BlockID]block{}}
		},
	})
	var wg, last sync.WaitGroup
	clients, turns := count(6, 4), count(6, 4)
	last.Add(clients)
	for client := range clients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(client)))
			text := strings.Repeat(story, 2)[random.IntN(40):][:90]
			for turn := range turns {
				g := sampled(tokenize(t, m, text), 1+random.IntN(4), 4+random.IntN(12), random.Uint32())
				if turn == turns-1 { // longer than before, and all at once: the cells are not enough
					last.Done()
					last.Wait()
					g = sampled(g.Prompt[:20], 3, 60, random.Uint32())
					g.IgnoreEnd = true
				}
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(4) == 0 && !g.IgnoreEnd {
					g.Stream, g.Watch = true, func(generation.Event) { cancel() }
				}
				r, err := generate(ctx, e, g)
				cancel()
				switch {
				case err == nil:
					text += r.Completions[0].Text + " And then?"
				case ctx.Err() == nil:
					t.Errorf("turn %d: %v", turn, err)
				}
				if random.IntN(3) == 0 {
					text = strings.Repeat(story, 3)[random.IntN(9):][:100+random.IntN(100)]
				}
			}
		})
	}
	wg.Wait()
	stats := e.Stats()
	if stats.Forked == 0 || stats.CachedTokens == 0 || stats.Evicted == 0 || all.again == 0 {
		t.Errorf("the history has too little in it: %+v", stats)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	alone, differ := all.alone(t, m, kv)
	t.Logf("%d rows, %d of them differ from those alone; %d were read again, %d with other bits; %+v", alone, differ, all.again, all.other, stats)
	if differ > 0 || all.other > 0 {
		t.Errorf("%d of %d rows differ from those of the generation alone, %d of %d that were read again", differ, alone, all.other, all.again)
	}
	return stats.Preemptions
}

// alone computes rows again, each alone in an empty context, in one piece.
func (all *readings) alone(t *testing.T, m *llama.Model, kv string) (rows, differ int) {
	c, err := m.NewContext(llama.SetContext(1024), llama.SetBatch(1024), llama.SetMicroBatch(1024), llama.SetMaxSequences(9), llama.SetThreads(1, 1), llama.SetKVType(kv), llama.SetFlashAttention(true))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, r := range all.rows {
		if rows++; rows > count(100, 60) {
			return rows - 1, differ
		}
		row := logitsAlone(t, c, r.context)
		if !sameBits(row, r.logits) {
			differ++
		}
	}
	return rows, differ
}
