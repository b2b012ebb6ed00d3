package llama

import (
	"errors"
	"strings"
	"testing"
)

// TestFailedDeviceLosesOnlyItsContext wherever in a decode it fails: in the first node, in
// the middle and in the last step of a prompt.
func TestFailedDeviceLosesOnlyItsContext(t *testing.T) {
	for _, nodes := range []int{1, 7, 40, 100} {
		m := private(t)
		other := newContext(t, m)
		prompt := tokenize(t, m, "the and of")
		want := feed(t, other, 0, prompt)

		c := newContext(t, m, failAt(nodes))
		b := newBatch(t, 1)
		var err error
		for pos := Pos(0); err == nil; pos++ {
			b.Reset()
			if err := b.Add(prompt[0], pos, 0, true); err != nil {
				t.Fatal(err)
			}
			if err = c.Decode(b); err == nil {
				_, err = c.Logits(0)
			}
			if pos > 100 {
				t.Fatalf("%d nodes: nothing failed", nodes)
			}
		}
		if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "made to fail") {
			t.Fatalf("%d nodes: %v", nodes, err)
		}
		_, logits := c.Logits(0)
		for what, err := range map[string]error{
			"decode": c.Decode(b), "logits": logits, "clear": c.Memory().Clear(), "forget": c.Memory().Forget(),
			"copy": c.Memory().Copy(0, 1, 0, 1), "remove": c.Memory().Remove(0, 0, 1), "keep": c.Memory().Keep(0),
		} {
			if !errors.Is(err, ErrLost) {
				t.Errorf("%s afterwards: %v", what, err)
			}
		}
		if end := c.Memory().PosMax(0); end != -1 {
			t.Errorf("the lost sequence ends at %d", end)
		}

		if err := other.Memory().Clear(); err != nil {
			t.Fatal(err)
		}
		for i, v := range feed(t, other, 0, prompt) {
			if v != want[i] {
				t.Fatalf("%d nodes: the other context computes %v at %d, not %v", nodes, v, i, want[i])
			}
		}
		for _, c := range []*Context{c, other} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := m.Free(); err != nil {
			t.Error(err)
		}
	}
}
