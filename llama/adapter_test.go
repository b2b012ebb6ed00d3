package llama

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/llama/synth"
)

// smallSpec is a tiny model of exact weights.
func smallSpec(t testing.TB, arch string) synth.Spec {
	t.Helper()
	spec, err := synth.Preset("tiny", arch)
	if err != nil {
		t.Fatal(err)
	}
	spec.Type, spec.Small = "f32", true
	return spec
}

func loadSpec(t testing.TB, spec synth.Spec) *Model {
	t.Helper()
	path, err := synth.Cached("", spec)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(path, onTestDevice()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Free(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func newAdapter(t testing.TB, m *Model, spec synth.Spec, a synth.Adapter) *Adapter {
	t.Helper()
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	if err := synth.WriteAdapter(path, spec, a); err != nil {
		t.Fatal(err)
	}
	made, err := m.NewAdapter(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Free(); err != nil {
			t.Error(err)
		}
	})
	return made
}

// lastRow is the row of logits of a prompt's last token, computed in an empty sequence.
func lastRow(t testing.TB, c *Context, seq SeqID) []float32 {
	t.Helper()
	return feed(t, c, seq, []Token{40, 41, 50, 44, 47, 60, 41, 52})
}

func TestAdapterEqualsMergedWeights(t *testing.T) {
	for name, tc := range map[string]struct {
		arch    string
		adapter synth.Adapter
	}{
		"all matrices of layers":  {synth.Qwen3, synth.Adapter{Rank: 4, Alpha: 8, Seed: 3, Gain: 0.5}},
		"another architecture":    {synth.Llama, synth.Adapter{Rank: 2, Alpha: 2, Seed: 4, Gain: 0.5}},
		"a recurrent model":       {synth.Qwen35, synth.Adapter{Rank: 3, Alpha: 6, Seed: 5, Gain: 0.3}},
		"queries and values only": {synth.Qwen2, synth.Adapter{Rank: 4, Alpha: 4, Seed: 6, Gain: 1, Tensors: []string{"attn_q.weight", "attn_v.weight"}}},
		"the output's matrix":     {synth.GPTOSS, synth.Adapter{Rank: 4, Alpha: 4, Seed: 7, Gain: 0.5, Tensors: []string{"output.weight"}}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := smallSpec(t, tc.arch)
			m := loadSpec(t, spec)
			merged := spec
			merged.Merged = &tc.adapter
			want := lastRow(t, newContext(t, loadSpec(t, merged)), 0)
			a := newAdapter(t, m, spec, tc.adapter)
			c := newContext(t, m, SetMaxSequences(3))
			base := lastRow(t, c, 0)
			if err := c.SetAdapter(a); err != nil {
				t.Fatal(err)
			}
			got := lastRow(t, c, 1)
			if d := maxDiff(got, want); d > 0.01*synth.LogitSpread {
				t.Errorf("logits differ by %g from those of merged weights", d)
			}
			if d := maxDiff(got, base); d < 0.1*synth.LogitSpread {
				t.Errorf("logits differ by only %g from those without the adapter", d)
			}
			if err := a.Free(); !errors.Is(err, ErrInUse) {
				t.Errorf("Free in use: %v", err)
			}
			if err := c.SetAdapter(nil); err != nil {
				t.Fatal(err)
			}
			if d := maxDiff(lastRow(t, c, 2), base); d > 1e-4 {
				t.Errorf("without the adapter again, logits differ by %g", d)
			}
		})
	}
}

func TestUnusableAdapterIsRefusedWithReason(t *testing.T) {
	spec := smallSpec(t, synth.Qwen3)
	m := loadSpec(t, spec)
	write := func(spec synth.Spec, a synth.Adapter) string {
		path := filepath.Join(t.TempDir(), "adapter.gguf")
		if err := synth.WriteAdapter(path, spec, a); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := synth.Adapter{Rank: 2, Alpha: 2, Seed: 1, Gain: 1}
	larger := spec
	larger.Embedding *= 2
	deeper := spec
	deeper.Layers++
	cut := write(spec, plain)
	if info, err := os.Stat(cut); err != nil {
		t.Fatal(err)
	} else if err := os.Truncate(cut, info.Size()-100); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ path, reason string }{
		"a missing file":                     {filepath.Join(t.TempDir(), "none"), "no such file"},
		"no GGUF file":                       {text, "not a GGUF file"},
		"a model instead of an adapter":      {modelPath(t, synth.Qwen3), "general.type"},
		"an adapter of another architecture": {write(smallSpec(t, synth.Llama), plain), "arch mismatch"},
		"an adapter of a wider model":        {write(larger, plain), "incorrect shape"},
		"an adapter of a deeper model":       {write(deeper, plain), "does not exist"},
		"a file that was cut":                {cut, "within the file bounds"},
		"norms beside the pairs":             {write(spec, synth.Adapter{Rank: 2, Alpha: 2, Gain: 1, Norms: true}), "_norm.weight"},
		"embeddings that are the output too": {write(spec, synth.Adapter{Rank: 2, Alpha: 2, Gain: 1, Tensors: []string{"token_embd.weight"}}), "token_embd.weight"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := m.NewAdapter(tc.path)
			if err == nil {
				a.Free()
				t.Fatal("it was loaded")
			}
			if !strings.Contains(err.Error(), tc.reason) {
				t.Errorf("%v does not say %q", err, tc.reason)
			}
		})
	}
	other := loadSpec(t, spec)
	a := newAdapter(t, other, spec, plain)
	if err := newContext(t, m).SetAdapter(a); err == nil || !strings.Contains(err.Error(), "another model") {
		t.Errorf("an adapter of another model: %v", err)
	}
}

func TestAdaptersLoadWhileContextsDecode(t *testing.T) {
	spec := smallSpec(t, synth.Qwen3)
	m := loadSpec(t, spec)
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	if err := synth.WriteAdapter(path, spec, synth.Adapter{Rank: 2, Alpha: 2, Seed: 1, Gain: 1}); err != nil {
		t.Fatal(err)
	}
	applied := newAdapter(t, m, spec, synth.Adapter{Rank: 2, Alpha: 2, Seed: 2, Gain: 1})
	loads := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for {
			a, err := m.NewAdapter(path)
			if err == nil {
				err = a.Free()
			}
			select {
			case <-stop:
				loads <- err
				return
			default:
				if err != nil {
					loads <- err
					return
				}
			}
		}
	}()
	c := newContext(t, m, SetMaxSequences(20))
	for i := range SeqID(20) {
		a := applied
		if i%2 == 0 {
			a = nil
		}
		if err := c.SetAdapter(a); err != nil {
			t.Fatal(err)
		}
		lastRow(t, c, i)
	}
	close(stop)
	if err := <-loads; err != nil {
		t.Fatal(err)
	}
}
