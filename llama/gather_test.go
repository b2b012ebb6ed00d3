package llama

import (
	"slices"
	"testing"

	"agentd/llama/synth"
)

// gatherRows decodes four forks of a short prompt, twice, beside more than 4096 cells of another
// sequence, and returns the logits.
func gatherRows(t *testing.T, c *Context) (rows [][]float32) {
	t.Helper()
	feed(t, c, 7, countTo(4200, 3))
	feed(t, c, 0, countTo(24, 1))
	for s := SeqID(1); s < 4; s++ {
		must(t, c.Memory().Copy(0, s, -1, -1))
	}
	b := newBatch(t, 4)
	for step := range 2 {
		b.Reset()
		for s := range SeqID(4) {
			must(t, b.Add(Token(50+int(s)+step), Pos(24+step), s, true))
		}
		must(t, c.Decode(b))
		for i := range 4 {
			row, err := c.Logits(i)
			must(t, err)
			rows = append(rows, slices.Clone(row))
		}
	}
	// A row that sees more than half of all cells is not gathered.
	return append(rows, feed(t, c, 7, countTo(1, 2)))
}

// TestOnDeviceGatheredLogitsAreThoseOfDense attention, with sliding windows too.
func TestOnDeviceGatheredLogitsAreThoseOfDense(t *testing.T) {
	needsTestDevice(t)
	t.Cleanup(func() { must(t, SetGather(false)) })
	for _, arch := range []string{synth.Qwen3, synth.GPTOSS} {
		t.Run(arch, func(t *testing.T) {
			m := deviceModel(t, arch, SetDevices(testDevice))
			if !m.GathersOn(testDevice, "f16") {
				t.Skipf("%s does not gather for this model", testDevice)
			}
			options := []ContextOption{SetContext(4608), SetBatch(4608), SetMaxSequences(8), SetMaxOutputs(8), SetFlashAttention(true)}
			must(t, SetGather(false))
			before := gathered()
			want := gatherRows(t, newContext(t, m, options...))
			if n := gathered() - before; n > 0 {
				t.Errorf("%d attentions were gathered while it was off", n)
			}
			must(t, SetGather(true))
			got := gatherRows(t, newContext(t, m, options...))
			if gathered() == before {
				t.Error("no attention was gathered")
			}
			for i := range want {
				if d := maxDiff(got[i], want[i]); d > sameOnDevice {
					t.Errorf("row %d differs by %g", i, d)
				}
			}
			t.Logf("%d attentions were gathered", gathered()-before)
		})
	}
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
