package llama

import (
	"slices"
	"testing"

	"agentd/llama/synth"
)

// Rows of several micro-batches, of which some are outputs, are read twice. Each sequence has
// one token, so attention has no sums and both computations must give the same bits.
func TestDeferredLogitsAreBitIdentical(t *testing.T) {
	if !SharedAttention() {
		t.Log("this machine has no such device: llama.cpp's own is compared with itself")
	}
	defer SetSharedAttention(true)
	for _, weights := range []string{"f32", "f16", "q8_0"} {
		t.Run(weights, func(t *testing.T) {
			spec, err := synth.Preset("tiny", synth.Qwen3)
			if err != nil {
				t.Fatal(err)
			}
			spec.Type, spec.Seed, spec.Small = weights, 5, true
			path, err := synth.Cached("", spec)
			if err != nil {
				t.Fatal(err)
			}
			m, err := New(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Free() })
			SetSharedAttention(false)
			want := firstLogits(t, m)
			SetSharedAttention(true)
			got := firstLogits(t, m)
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("row %d: they differ by %g", i, maxDiff(got[i], want[i]))
				}
			}
			if slices.Equal(want[0], want[1]) {
				t.Error("all rows are the same, which says nothing")
			}
		})
	}
}

// firstLogits are the logits of the first tokens of some sequences, from two batches.
func firstLogits(t *testing.T, m *Model) (rows [][]float32) {
	t.Helper()
	const width = 11
	c := newContext(t, m, SetContext(256), SetBatch(width), SetMicroBatch(4), SetMaxSequences(2*width), SetMaxOutputs(width))
	b := make([]Row, width)
	for round := range 2 {
		for i := range b {
			b[i] = Row{Token(40 + 7*i + round), 0, SeqID(round*width + i), i%3 != 1}
		}
		if err := c.Decode(b); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for i := range width {
				if i%3 == 1 {
					continue
				}
				row, err := c.Logits(i)
				if err != nil {
					t.Fatal(err)
				}
				rows = append(rows, slices.Clone(row))
			}
		}
	}
	return rows
}
