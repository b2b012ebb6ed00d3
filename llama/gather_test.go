package llama

import (
	"math"
	"slices"
	"testing"

	"agentd/llama/synth"
)

// decodeForks decodes four forks of a short prompt, twice, and returns the logits.
func decodeForks(t *testing.T, c *Context) (rows [][]float32) {
	t.Helper()
	feed(t, c, 0, countTo(24, 1))
	b := make([]Row, 4)
	for s := SeqID(1); s < 4; s++ {
		must(t, c.Memory().Copy(0, s, -1, -1))
	}
	for step := range 2 {
		for s := range b {
			b[s] = Row{Token(50 + s + step), Pos(24 + step), SeqID(s), true}
		}
		must(t, c.Decode(b))
		for i := range 4 {
			row, err := c.Logits(i)
			must(t, err)
			rows = append(rows, slices.Clone(row))
		}
	}
	for s := range SeqID(4) {
		must(t, c.Memory().Remove(s, -1, -1))
	}
	return rows
}

// TestOnDeviceGatheredLogitsAreThoseOfDense attention, beside more than 4096 cells of others.
func TestOnDeviceGatheredLogitsAreThoseOfDense(t *testing.T) {
	needsTestDevice(t)
	m := deviceModel(t, synth.Qwen3, SetDevices(testDevice))
	if !m.GathersOn(testDevice, "f16") {
		t.Skipf("%s does not gather for this model", testDevice)
	}
	c := newContext(t, m, SetContext(6144), SetBatch(1024), SetMaxSequences(16), SetFlashAttention(true), SetThreads(2, 2))
	const block, copies = 525, 8
	feed(t, c, 0, countTo(block, 3))
	others := save(t, c, 0, block)
	must(t, c.Memory().Remove(0, -1, -1))
	for s := range SeqID(copies) {
		must(t, c.Memory().Load(others, 5+s, scratch(c), 0, block))
	}
	before := gathered()
	var want, got [][]float32
	onlyOnDevice(t, func() { want = decodeForks(t, c) })
	if n := gathered() - before; n > 0 {
		t.Errorf("%d attentions were gathered while it was off", n)
	}
	must(t, SetGather(true)) // each evaluation of the same context sets its bounds
	t.Cleanup(func() { must(t, SetGather(false)) })
	onlyOnDevice(t, func() { got = decodeForks(t, c) })
	if gathered() == before {
		t.Error("no attention was gathered")
	}
	worst := 0.0
	for i := range want {
		worst = max(worst, maxDiff(got[i], want[i]))
	}
	if worst > sameOnDevice || math.IsNaN(worst) {
		t.Errorf("a logit differs from that of dense attention by %g", worst)
	}
	t.Logf("%d attentions were gathered, worst difference %.4f", gathered()-before, worst)
}

// TestCPUGathersForNoModel: shared attention is what a CPU has instead.
func TestCPUGathersForNoModel(t *testing.T) {
	m := deviceModel(t, synth.Qwen3, SetDevices("cpu"))
	for _, device := range []string{"CPU", "CUDA99"} {
		if m.GathersOn(device, "f16") {
			t.Errorf("%s gathers", device)
		}
	}
}
