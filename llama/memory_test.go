package llama

import (
	"errors"
	"math"
	"testing"

	"agentd/llama/synth"
)

func maxDiff(a, b []float32) float64 {
	d := 0.0
	for i := range a {
		d = max(d, math.Abs(float64(a[i])-float64(b[i])))
	}
	return d
}

// sameRow allows the rounding of sums in another order.
const sameRow = 0.02

var attentionOnly = []string{synth.Qwen2, synth.Qwen3, synth.GPTOSS}

func TestForkGivesTheLogitsOfRecomputation(t *testing.T) {
	for _, arch := range []string{synth.Qwen2, synth.Qwen3, synth.Qwen35, synth.GPTOSS} {
		t.Run(arch, func(t *testing.T) {
			m := shared(t, arch)
			prompt := tokenize(t, m, "The robot goes to the kitchen and ")
			tails := [][]Token{tokenize(t, m, "opens the door."), tokenize(t, m, "waits for a while"), tokenize(t, m, "{\"x\": 1}")}
			forked := newContext(t, m)
			feed(t, forked, 0, prompt)
			for i := range tails {
				if err := forked.Memory().Copy(0, SeqID(i+1), -1, -1); err != nil {
					t.Fatal(err)
				}
			}
			for i, tail := range tails {
				got := feed(t, forked, SeqID(i+1), tail)
				fresh := newContext(t, m)
				feed(t, fresh, 0, prompt)
				if d := maxDiff(got, feed(t, fresh, 0, tail)); d > sameRow {
					t.Errorf("tail %d differs by %g", i, d)
				}
			}
		})
	}
}

func TestForkOfAPrefix(t *testing.T) {
	for _, arch := range attentionOnly {
		t.Run(arch, func(t *testing.T) {
			m := shared(t, arch)
			prompt := tokenize(t, m, "The robot goes to the kitchen and opens the door, then it waits.")
			cut := Pos(len(prompt) / 2)
			c := newContext(t, m)
			want := feed(t, c, 0, prompt)
			if err := c.Memory().Copy(0, 1, 0, cut); err != nil {
				t.Fatal(err)
			}
			if end := lastPos(c, 1); end != cut-1 {
				t.Fatalf("the fork ends at %d, not %d", end, cut-1)
			}
			if d := maxDiff(want, feed(t, c, 1, prompt[cut:])); d > sameRow {
				t.Errorf("differs by %g", d)
			}
		})
	}
}

func TestForkIsCutAndContinuedAsAnother(t *testing.T) {
	for _, arch := range attentionOnly {
		t.Run(arch, func(t *testing.T) {
			m := shared(t, arch)
			prompt := tokenize(t, m, "The robot goes to the kitchen and opens the door, then it waits.")
			cut := Pos(len(prompt) / 2)
			c := newContext(t, m)
			feed(t, c, 0, prompt[:len(prompt)-1])
			want := feed(t, c, 0, prompt[len(prompt)-1:])
			if err := c.Memory().Copy(0, 1, 0, cut); err != nil {
				t.Fatal(err)
			}
			feed(t, c, 1, tokenize(t, m, "another end"))
			if err := c.Memory().Remove(1, cut, -1); err != nil {
				t.Fatal(err)
			}
			if err := c.Memory().Copy(0, 1, cut, Pos(len(prompt)-1)); err != nil {
				t.Fatal(err)
			}
			if d := maxDiff(want, feed(t, c, 1, prompt[len(prompt)-1:])); d > sameRow {
				t.Errorf("differs by %g", d)
			}
		})
	}
}

func TestForksOutliveALongSlidingWindow(t *testing.T) {
	m := shared(t, synth.GPTOSS) // window of 128
	long := make([]Token, 400)
	for i := range long {
		long[i] = Token(65 + i*i%50)
	}
	c := newContext(t, m, SetContext(1024), SetBatch(512))
	want := feed(t, c, 0, long)
	if err := c.Memory().Copy(0, 1, 0, 300); err != nil {
		t.Fatal(err)
	}
	if err := c.Memory().Remove(0, 0, -1); err != nil {
		t.Fatal(err)
	}
	if first, _ := c.Memory().Range(1); first != 0 {
		t.Errorf("the fork begins at %d", first)
	}
	if d := maxDiff(want, feed(t, c, 1, long[300:])); d > sameRow {
		t.Errorf("differs by %g", d)
	}
}

func TestRemoveAndDecodeAgain(t *testing.T) {
	for _, arch := range attentionOnly {
		t.Run(arch, func(t *testing.T) {
			m := shared(t, arch)
			prompt := tokenize(t, m, "The robot goes to the kitchen and opens the door.")
			c := newContext(t, m)
			want := feed(t, c, 0, prompt)
			cut := Pos(5)
			if err := c.Memory().Remove(0, cut, -1); err != nil {
				t.Fatal(err)
			}
			if end := lastPos(c, 0); end != cut-1 {
				t.Fatalf("ends at %d", end)
			}
			if d := maxDiff(want, feed(t, c, 0, prompt[cut:])); d > sameRow {
				t.Errorf("differs by %g", d)
			}
		})
	}
}

// The answer is derived from the architecture. This test compares it with the memory.
func TestCanRemovePartial(t *testing.T) {
	for _, arch := range []string{synth.Qwen2, synth.Qwen3, synth.Qwen35, synth.GPTOSS} {
		t.Run(arch, func(t *testing.T) {
			m := shared(t, arch)
			c := newContext(t, m)
			feed(t, c, 0, tokenize(t, m, "The robot goes"))
			err := c.Memory().Remove(0, 1, -1)
			if can := err == nil; can != c.Memory().CanRemovePartial() || !can && !errors.Is(err, ErrPartial) {
				t.Errorf("CanRemovePartial %v, Remove: %v", c.Memory().CanRemovePartial(), err)
			}
		})
	}
}

func TestHybridMemoryTakesWholeSequencesOnly(t *testing.T) {
	m := shared(t, synth.Qwen35)
	c := newContext(t, m)
	feed(t, c, 0, tokenize(t, m, "The robot goes"))
	mem, end := c.Memory(), lastPos(c, 0)
	for rule, err := range map[string]error{
		"a copy without the end":   mem.Copy(0, 1, 0, end),
		"a copy without the start": mem.Copy(0, 1, 1, -1),
	} {
		if !errors.Is(err, ErrPartial) {
			t.Errorf("%s: %v", rule, err)
		}
	}
	if err := mem.Copy(0, 1, 0, end+1); err != nil {
		t.Errorf("a copy that names the end: %v", err)
	}
	if err := mem.Remove(0, -1, -1); err != nil || lastPos(c, 0) != -1 || lastPos(c, 1) != end {
		t.Errorf("Remove of all: %v; ends %d and %d", err, lastPos(c, 0), lastPos(c, 1))
	}
}

func TestMemoryRefuses(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	c := newContext(t, m, SetMaxSequences(2))
	feed(t, c, 0, tokenize(t, m, "the"))
	feed(t, c, 1, tokenize(t, m, "and"))
	mem := c.Memory()
	for rule, err := range map[string]error{
		"a source beyond the context's": mem.Copy(2, 0, 0, -1),
		"a negative target":             mem.Copy(0, -1, 0, -1),
		"a copy to itself":              mem.Copy(0, 0, 0, -1),
		"a target with tokens":          mem.Copy(0, 1, 0, -1),
		"a target of another length":    mem.Copy(0, 1, 2, -1),
		"removing everyone's":           mem.Remove(-1, 0, -1),
	} {
		if !errors.Is(err, ErrSequence) {
			t.Errorf("%s: %v", rule, err)
		}
	}
	if first, _ := mem.Range(77); first != -1 || lastPos(c, -1) != -1 {
		t.Error("positions of unknown sequences")
	}
}

func TestClearDropsAllSequences(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	c := newContext(t, m)
	mem := c.Memory()
	for s := range SeqID(3) {
		feed(t, c, s, tokenize(t, m, "the and"))
	}
	if err := mem.Clear(true); err != nil {
		t.Fatal(err)
	}
	if lastPos(c, 0) != -1 || lastPos(c, 1) != -1 || lastPos(c, 2) != -1 {
		t.Errorf("after Clear: %d %d %d", lastPos(c, 0), lastPos(c, 1), lastPos(c, 2))
	}
}
