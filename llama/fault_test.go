package llama

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// failAt makes a device fail after that many nodes of a graph: by GGML_ABORT, or, with a
// VkResult, by the exception of a Vulkan call.
func failAt(nodes int, result ...int) ContextOption {
	return func(o *contextOptions) {
		o.failAt = nodes
		for _, r := range result {
			o.failWith = r
		}
	}
}

// TestFailedDeviceLosesOnlyItsContext wherever in a decode it fails: in the first node, in
// the middle and in the last step of a prompt.
func TestFailedDeviceLosesOnlyItsContext(t *testing.T) {
	for _, nodes := range []int{1, 7, 40, 100} {
		m := private(t)
		other := newContext(t, m)
		prompt := tokenize(t, m, "the and of")
		want := feed(t, other, 0, prompt)

		c := newContext(t, m, failAt(nodes))
		b := []Row{{prompt[0], 0, 0, true}}
		var err error
		for pos := Pos(0); err == nil; pos++ {
			b[0].Pos = pos
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
			"decode": c.Decode(b), "logits": logits, "clear": c.Memory().Clear(true), "clear without zeros": c.Memory().Clear(false),
			"copy": c.Memory().Copy(0, 1, 0, 1), "remove": c.Memory().Remove(0, 0, 1),
		} {
			if !errors.Is(err, ErrLost) {
				t.Errorf("%s afterwards: %v", what, err)
			}
		}
		if end := lastPos(c, 0); end != -1 {
			t.Errorf("the lost sequence ends at %d", end)
		}

		if err := other.Memory().Clear(true); err != nil {
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

// TestVulkanExceptionLosesContext which failed, by what a Vulkan call throws: a part of a step may be computed.
func TestVulkanExceptionLosesContext(t *testing.T) {
	m := private(t)
	t.Cleanup(func() { must(t, m.Free()) })
	const outOfDeviceMemory = -2
	c := newContext(t, m, failAt(7, outOfDeviceMemory))
	b := []Row{{50, 0, 0, true}}
	for range 2 {
		if err := c.Decode(b); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "made to fail") {
			t.Fatalf("%v, want ErrLost", err)
		}
	}
	must(t, c.Close())
	// Another context is not touched.
	feed(t, newContext(t, m), 0, []Token{50, 51})
	if gpuFailed() {
		t.Error("lack of memory counts as a lost device")
	}
}

// TestLostVulkanDeviceIsNotTouchedAgain, in its own process, since the loss is for good.
func TestLostVulkanDeviceIsNotTouchedAgain(t *testing.T) {
	const inChild = "AGENTD_TEST_LOST"
	if os.Getenv(inChild) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), inChild+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	const deviceLost = -4
	m := private(t)
	c := newContext(t, m, failAt(7, deviceLost))
	b := []Row{{50, 0, 0, true}}
	if err := c.Decode(b); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "ErrorDeviceLost") || !gpuFailed() {
		t.Errorf("%v, noted: %t; want ErrLost of a device that is noted as failed", err, gpuFailed())
	}
	must(t, c.Close(), m.Free())
}
