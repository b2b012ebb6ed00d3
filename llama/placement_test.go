package llama

import (
	"testing"

	"agentd/llama/synth"
)

// TestPlacementHasAllWeightsAndLayers of a model on the CPU, and a KV cache of the size that its type gives.
func TestPlacementHasAllWeightsAndLayers(t *testing.T) {
	m := deviceModel(t, synth.Qwen3, SetDevices("cpu"))
	c := newContext(t, m, SetContext(512), SetKVType("f16"))
	list := c.Placement()
	if len(list) != 1 || list[0].Device != "CPU" {
		t.Fatalf("%+v, want only the CPU", list)
	}
	info := m.Info()
	p := list[0]
	if p.Layers != info.Layers || p.Weights < info.SizeBytes || p.Weights > 2*info.SizeBytes {
		t.Errorf("%d layers and %d bytes of weights, want %d and about %d", p.Layers, p.Weights, info.Layers, info.SizeBytes)
	}
	const heads, size, keyAndValue, f16 = 2, 16, 2, 2 // of the tiny preset
	if want := uint64(info.Layers * 512 * heads * size * keyAndValue * f16); p.Memory != want {
		t.Errorf("%d bytes of KV cache, want %d", p.Memory, want)
	}
	must(t, c.Close())
	if list := c.Placement(); list != nil {
		t.Errorf("%+v after Close", list)
	}
}

// TestOnDevicePlacementNamesDevice for all layers and the KV cache.
func TestOnDevicePlacementNamesDevice(t *testing.T) {
	needsTestDevice(t)
	m := deviceModel(t, synth.Qwen3, SetDevices(testDevice))
	for _, p := range newContext(t, m).Placement() {
		if on := p.Device == testDevice; on != (p.Layers == m.Info().Layers) || on != (p.Memory > 0) {
			t.Errorf("%+v", p)
		}
	}
}
