package llama

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/cpu"

	"agentd/llama/synth"
)

// herd describes a context of agents. All prompts share a beginning, and the candidates of
// an agent share its prompt.
type herd struct {
	agents, candidates int
	common, prompt     int // tokens
}

// run computes the prompts and a number of steps for each candidate. It calls see with the
// logits of each step.
func (h herd) run(t testing.TB, c *Context, steps int, see func(rows [][]float32)) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	var batch []Row
	token := func() Token { return Token(r.IntN(c.vocab)) }
	add := func(p Pos, s SeqID, output bool) {
		batch = append(batch, Row{token(), p, s, output})
	}
	decode := func() {
		if err := c.Decode(batch); err != nil {
			t.Fatal(err)
		}
		batch = batch[:0]
	}
	copies := func(src, dst SeqID, n int) {
		if err := c.Memory().Copy(src, dst, 0, Pos(n)); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(s SeqID, from, to int) {
		for p := from; p < to; p++ {
			add(Pos(p), s, p == to-1)
			if len(batch) == c.BatchSize() || p == to-1 {
				decode()
			}
		}
	}
	first := func(agent int) SeqID { return SeqID(agent * h.candidates) }
	if h.common > 0 {
		fill(0, 0, h.common)
	}
	for a := 1; a < h.agents && h.common > 0; a++ {
		copies(0, first(a), h.common)
	}
	for a := range h.agents {
		fill(first(a), h.common, h.prompt)
		for i := 1; i < h.candidates; i++ {
			copies(first(a), first(a)+SeqID(i), h.prompt)
		}
	}
	width := h.agents * h.candidates
	for step := range steps {
		for s := range SeqID(width) {
			add(Pos(h.prompt+step), s, true)
		}
		decode()
		if see == nil {
			continue
		}
		rows := make([][]float32, width)
		for i := range rows {
			row, err := c.Logits(i)
			if err != nil {
				t.Fatal(err)
			}
			rows[i] = append([]float32(nil), row...)
		}
		see(rows)
	}
}

// shaped is a random model with few layers, each with the shape of a real model's.
func shaped(t testing.TB, spec synth.Spec) *Model {
	t.Helper()
	spec.Arch, spec.Seed, spec.Context, spec.Small = synth.Qwen3, 1, 32768, true
	spec.Type = cmp.Or(spec.Type, "q8_0")
	path, err := synth.Cached("", spec)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Free() })
	return m
}

// BenchmarkAgents is a decode step of 16 agents with 4 candidates each.
func BenchmarkAgents(b *testing.B) {
	for name, spec := range map[string]synth.Spec{
		"0.6b/4layers": {Layers: 4, Embedding: 1024, FFN: 3072, Heads: 16, KVHeads: 8, HeadDim: 128},
		"household":    {Layers: 6, Embedding: 256, FFN: 768, Heads: 4, KVHeads: 2, HeadDim: 64},
	} {
		m := shaped(b, spec)
		for _, kv := range []string{"f16", "q8_0"} {
			for _, how := range []string{"shared", "f32", "ggml"} {
				b.Run(fmt.Sprintf("%s/%s/%s", name, kv, how), func(b *testing.B) { agents(b, m, kv, how) })
			}
		}
	}
}

func agents(b *testing.B, m *Model, kv, how string) {
	SetSharedAttention(how != "ggml")
	SetF32Attention(how == "f32")
	defer SetSharedAttention(true)
	defer SetF32Attention(false)
	h := herd{agents: 16, candidates: 4, common: 300, prompt: 900}
	c := newContext(b, m, SetContext(16384), SetBatch(512), SetMaxSequences(64), SetKVType(kv), SetThreads(2, 2))
	began := time.Now()
	var prefilled time.Time
	steps := 12
	h.run(b, c, steps, func([][]float32) {
		if prefilled.IsZero() {
			prefilled = time.Now()
		}
	})
	b.ReportMetric(float64(prefilled.Sub(began).Microseconds())/1e3, "ms/prefill")
	b.ReportMetric(float64(time.Since(prefilled).Microseconds())/1e3/float64(steps-1), "ms/step")
}

func TestSharedAttentionIsAsExactAsLlamaCpp(t *testing.T) {
	if !SharedAttention() {
		t.Log("this machine has none: llama.cpp's own is compared with itself")
	}
	defer SetSharedAttention(true)
	for _, arch := range []string{synth.Qwen2, synth.Qwen3, synth.Qwen35, synth.GPTOSS} {
		types := []string{"f32", "f16", "bf16"}
		if arch == synth.GPTOSS { // heads of the other models are smaller than a block
			types = append(types, "q8_0", "q5_1")
		}
		for _, kv := range types {
			t.Run(arch+" "+kv, func(t *testing.T) { noFurther(t, arch, kv) })
		}
	}
}

// TestMasksReadOnlyBySharedAttentionAreLists checks that the patch works. Without it the
// results are right, but computed more slowly.
func TestMasksReadOnlyBySharedAttentionAreLists(t *testing.T) {
	header, err := os.ReadFile("../third_party/llama.cpp/src/llama-kv-cells.h")
	if err != nil {
		t.Fatal(err)
	}
	patched := bytes.Contains(header, []byte("agentd-cells.h"))
	defer SetSharedAttention(true)
	for arch, masks := range map[string]uint64{synth.Qwen3: 1, synth.Qwen35: 1, synth.GPTOSS: 2} { // a sliding window has its own mask
		for _, on := range []bool{true, false} {
			SetSharedAttention(on)
			want := uint64(0)
			if SharedAttention() && patched {
				want = masks
			}
			c := newContext(t, shared(t, arch))
			for range 2 { // a new graph, and a reused one
				before := masksAsLists()
				feed(t, c, 0, []Token{1})
				if got := masksAsLists() - before; got != want {
					t.Errorf("%s, shared attention %v, patch %v: %d masks were read as lists, want %d", arch, on, patched, got, want)
				}
			}
		}
	}
}

// TestAttentionRoundsOnlyForModelsThatRound compares logits with logits of attention in F32.
func TestAttentionRoundsOnlyForModelsThatRound(t *testing.T) {
	packed := SharedAttention() && cpu.X86.HasAVX512BF16 && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ
	defer SetF32Attention(false)
	for weights, rounds := range map[string]bool{"f32": false, "f16": false, "bf16": packed, "q8_0": packed} {
		m := shaped(t, synth.Spec{Layers: 2, Embedding: 64, FFN: 64, Heads: 2, KVHeads: 1, HeadDim: 32, Type: weights})
		for kv, rounds := range map[string]bool{"f32": false, "f16": rounds, "bf16": rounds, "q8_0": rounds} {
			logits := func(f32 bool) (all []float32) {
				SetF32Attention(f32)
				c := newContext(t, m, SetKVType(kv), SetMaxSequences(4))
				herd{agents: 2, candidates: 2, common: 20, prompt: 40}.run(t, c, 4, func(rows [][]float32) { all = append(all, slices.Concat(rows...)...) })
				return all
			}
			exact, got := logits(true), logits(false)
			if rounded := !slices.Equal(exact, got); rounded != rounds {
				t.Errorf("%s weights, %s cache: rounded %v, want %v", weights, kv, rounded, rounds)
			}
			if e := standardError(got, exact); e > 0.1*synth.LogitSpread {
				t.Errorf("%s weights, %s cache: standard error of a logit: %g", weights, kv, e)
			} else {
				t.Logf("%s weights, %s cache: standard error of a logit: %.4f", weights, kv, e)
			}
		}
	}
}

func standardError(got, want []float32) float64 {
	var sum float64
	for i, x := range got {
		sum += float64(x-want[i]) * float64(x-want[i])
	}
	return math.Sqrt(sum / float64(len(want)))
}

func noFurther(t *testing.T, arch, kv string) {
	// With F32 weights no product rounds the rows that it reads, which would turn the least
	// difference into a large one now and then.
	spec, err := synth.Preset("tiny", arch)
	if err != nil {
		t.Fatal(err)
	}
	spec.Type, spec.Small = "f32", true
	path, err := synth.Cached("", spec)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(path, onTestDevice()...)
	if err != nil {
		t.Fatal(err)
	}
	h := herd{agents: 3, candidates: 3, common: 40, prompt: 100}
	if arch == synth.Qwen35 {
		h.common = 0 // a recurrent state cannot be copied in part
	}
	logits := func(opts ...ContextOption) (all []float32) {
		c := newContext(t, m, append(opts, SetContext(1024), SetMaxSequences(9), SetThreads(2, 2))...)
		h.run(t, c, 8, func(rows [][]float32) { all = append(all, slices.Concat(rows...)...) })
		return all
	}
	truth := logits(SetFlashAttention(false), SetKVType("f32"))
	distance := func(on bool) float64 {
		SetSharedAttention(on)
		return standardError(logits(SetKVType(kv)), truth)
	}
	theirs, ours := distance(false), distance(true)
	t.Logf("standard error of a logit: %.4f, llama.cpp's own %.4f", ours, theirs)
	// Rounding by the type is the same on both sides.
	if SharedAttention() && ours == theirs {
		t.Error("both are the same to the last bit: llama.cpp computed both")
	}
	if kv == "f32" && SharedAttention() && ours > 1e-5 {
		t.Errorf("standard error of a logit: %g, want only that of the order of sums", ours)
	}
	if ours > 1.5*theirs || kv == "f16" && ours > 0.1*synth.LogitSpread {
		t.Errorf("standard error of a logit: %.4f, llama.cpp's own %.4f", ours, theirs)
	}
}
