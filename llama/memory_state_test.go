package llama

import (
	"errors"
	"testing"

	"agentd/llama/synth"
)

// save saves a part of sequence 0, with the last sequence as scratch.
func save(t *testing.T, c *Context, p0, p1 Pos) *State {
	t.Helper()
	s, err := c.Memory().Save(0, scratch(c), p0, p1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Free)
	return s
}

func scratch(c *Context) SeqID { return SeqID(c.MaxSequences() - 1) }

func TestLoadedStateGivesTheSameLogits(t *testing.T) {
	for _, kind := range []string{"f16", "f32"} {
		for _, arch := range []string{synth.Qwen2, synth.Qwen3} {
			t.Run(arch+" "+kind, func(t *testing.T) {
				m := shared(t, arch)
				prompt := tokenize(t, m, "The robot goes to the kitchen and opens the door, then it waits.")
				n := Pos(len(prompt))
				c := newContext(t, m, SetKVType(kind))
				feed(t, c, 0, prompt[:n-1])
				head, middle, tail := save(t, c, 0, n/3), save(t, c, n/3, n-3), save(t, c, n/2, n-1)
				want := feed(t, c, 0, prompt[n-1:])

				// Into other cells, with cells of another sequence between them.
				other := newContext(t, m, SetKVType(kind))
				feed(t, other, 2, prompt[:5])
				load := func(s *State, p0, p1 Pos) {
					if err := other.Memory().Load(s, 0, scratch(other), p0, p1); err != nil {
						t.Fatal(err)
					}
				}
				load(head, 0, n/3)
				feed(t, other, 2, prompt[5:9])
				load(middle, n/3, n/2+1)
				load(tail, n/2+1, n-1)
				if err := other.Memory().Remove(2, 0, -1); err != nil {
					t.Fatal(err)
				}
				if d := maxDiff(want, feed(t, other, 0, prompt[n-1:])); d > sameRow {
					t.Errorf("differs by %g", d)
				}
			})
		}
	}
}

func TestLoadFreesCellsItDoesNotKeep(t *testing.T) {
	m := shared(t, synth.Qwen3)
	c := newContext(t, m, SetContext(256), SetBatch(256))
	long := make([]Token, 128)
	for i := range long {
		long[i] = Token(65 + i%50)
	}
	feed(t, c, 0, long)
	s := save(t, c, 0, 128)
	if err := c.Memory().Load(s, 1, scratch(c), 0, 10); err != nil {
		t.Fatal(err)
	}
	feed(t, c, 1, long[10:]) // the last free cells
	if err := c.Memory().Load(s, 2, scratch(c), 0, 10); !errors.Is(err, ErrNoKVSlot) {
		t.Errorf("without free cells: %v", err)
	}
	for seq, want := range map[SeqID]Pos{0: 127, 1: 127, 2: -1, scratch(c): -1} {
		if got := lastPos(c, seq); got != want {
			t.Errorf("sequence %d ends at %d, not at %d", seq, got, want)
		}
	}
}

func TestUnsavableStateIsAnError(t *testing.T) {
	m := shared(t, synth.Qwen3)
	c := newContext(t, m)
	prompt := tokenize(t, m, "The robot goes to the kitchen.")
	feed(t, c, 0, prompt)
	n := Pos(len(prompt))
	s := save(t, c, 2, n)
	for name, p := range map[string][2]Pos{"empty": {3, 3}, "after the end": {2, n + 1}, "before the beginning": {-1, 3}} {
		if _, err := c.Memory().Save(0, scratch(c), p[0], p[1]); !errors.Is(err, ErrSequence) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Memory().Save(0, 0, 0, n); !errors.Is(err, ErrSequence) {
		t.Errorf("the sequence itself as scratch: %v", err)
	}
	if err := c.Memory().Load(s, 1, scratch(c), 2, n); !errors.Is(err, ErrSequence) {
		t.Errorf("to a sequence that ends before it: %v", err)
	}
	if err := c.Memory().Load(s, 0, scratch(c), n, n+1); !errors.Is(err, ErrSequence) {
		t.Errorf("more than was saved: %v", err)
	}
	s.Free()
	s.Free()
	if err := c.Memory().Load(s, 0, scratch(c), 2, n); !errors.Is(err, ErrClosed) {
		t.Errorf("after it was freed: %v", err)
	}
	for _, arch := range []string{synth.Qwen35, synth.GPTOSS} {
		if c := newContext(t, shared(t, arch)); c.Memory().CanSave() {
			t.Errorf("%s: its memory is no plain run of cells", arch)
		} else if _, err := c.Memory().Save(0, scratch(c), 0, 1); !errors.Is(err, ErrPartial) {
			t.Errorf("%s: %v", arch, err)
		}
	}
}

func TestStateOfAnotherModelIsRefused(t *testing.T) {
	a, b := newContext(t, shared(t, synth.Qwen3)), newContext(t, shared(t, synth.Qwen3), SetKVType("f32"))
	feed(t, a, 0, tokenize(t, shared(t, synth.Qwen3), "The robot goes to the kitchen."))
	s := save(t, a, 0, 4)
	if err := b.Memory().Load(s, 0, scratch(b), 0, 4); !errors.Is(err, ErrNoKVSlot) {
		t.Errorf("of another KV type: %v", err)
	}
	if end := lastPos(b, 0); end != -1 {
		t.Errorf("sequence 0 ends at %d", end)
	}
}
