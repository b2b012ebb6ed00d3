package live

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/inference/load"
	"agentd/llama/synth"
)

// TestEstimateForEqualModelIsItsPlacement: weights, KV caches and compute buffers as they lie.
func TestEstimateForEqualModelIsItsPlacement(t *testing.T) {
	cfg, dir := liveConfig(t)
	l := openLive(t, cfg)
	var now, estimate uint64
	for _, p := range l.Info().Placement {
		now += p.Weights + p.Memory + p.Compute
	}
	s, release := l.use()
	defer release()
	for free := uint64(1); ; free = estimate {
		var refused *load.HeadroomError
		err := s.HeadroomForModel(t.Context(), filepath.Join(dir, "model1.gguf"), sizeOf(t, cfg.Path), 0, 0, load.FreeMemory{"CPU": free})
		if !errors.As(err, &refused) {
			if err != nil || estimate == 0 {
				t.Fatal(err)
			}
			break
		}
		if estimate = refused.Need; estimate <= free {
			t.Fatalf("%v with %d bytes", err, free)
		}
	}
	info := l.Info()
	if vocabulary := uint64(sizeOf(t, cfg.Path)) - info.SizeBytes; math.Abs(float64(estimate)/float64(now)-1.05) > 0.01+2*float64(vocabulary)/float64(now) {
		t.Errorf("%d bytes are needed where the same model takes %d", estimate, now)
	}
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestWeightsWithoutHeadroomAreRefusedBeforeTheyLoad(t *testing.T) {
	cfg, dir := liveConfig(t)
	deep := tinySpec(t)
	deep.Layers *= 4
	if err := synth.Write(filepath.Join(dir, "deep.gguf"), deep); err != nil {
		t.Fatal(err)
	}
	l := openLive(t, cfg)
	var present uint64
	for _, p := range l.Info().Placement {
		present += p.Weights + p.Memory + p.Compute
	}
	before := asked(t, l, "Go on", "")
	for name, tc := range map[string]struct {
		free uint64
		set  func() error
		want string // "": it is loaded
	}{
		"a model that is too large":    {present / 2, func() error { return l.SetModel(t.Context(), "model1.gguf") }, "context_length"},
		"a model with a larger cache":  {2 * present, func() error { return l.SetModel(t.Context(), "deep.gguf") }, "beside the present ones"},
		"an adapter that is too large": {1000, func() error { return l.SetAdapter(t.Context(), "a", "adapter0.gguf") }, "remove an adapter"},
		"an adapter that fits":         {present / 2, func() error { return l.SetAdapter(t.Context(), "a", "adapter0.gguf") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l.free = func() load.FreeMemory { return load.FreeMemory{"CPU": tc.free} }
			err := tc.set()
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var refused *Error
			if !errors.As(err, &refused) || refused.Reason != NoMemory || !strings.Contains(refused.Detail, tc.want) || !strings.Contains(refused.Detail, "MB are free") {
				t.Errorf("%v, want no memory with %q", err, tc.want)
			}
			if after := asked(t, l, "Go on", ""); after != before {
				t.Errorf("afterwards %+v, before %+v", after, before)
			}
		})
	}
}
