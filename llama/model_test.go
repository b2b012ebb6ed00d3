package llama

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/llama/synth"
)

func TestNewErrors(t *testing.T) {
	whole, err := os.ReadFile(modelPath(t, synth.GPTOSS))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	broken := append([]byte(nil), whole...)
	for i := 24; i < 64; i++ {
		broken[i] ^= 0xFF
	}
	for _, tc := range []struct{ rule, path, want string }{
		{"a missing file is named", filepath.Join(dir, "none.gguf"), "no such file"},
		{"a directory is no model", dir, "not a GGUF file"},
		{"an empty file is no model", write("empty", nil), "not a GGUF file"},
		{"another format is no model", write("other", []byte("PK\x03\x04 something else")), "not a GGUF file"},
		{"a header alone is no model", write("head", whole[:16]), "load"},
		{"garbled metadata is refused", write("garbled", broken), "load"},
		{"truncated metadata is refused", write("meta", whole[:4000]), "load"},
		{"truncated weights are refused and say so", write("cut", whole[:len(whole)-5000]), "not within the file bounds"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			m, err := New(tc.path)
			if err == nil {
				m.Free()
				t.Fatal("it loaded")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not say %q", err, tc.want)
			}
		})
	}
}

func TestModelOptionErrors(t *testing.T) {
	path := modelPath(t, synth.GPTOSS)
	for _, tc := range []struct {
		rule, want string
		opt        ModelOption
	}{
		{"an unknown device is named", "CUDA7", SetDevices("CUDA7")},
		{"cpu stands alone", "cpu", SetDevices("cpu", "cpu")},
		{"a negative share is refused", "share 1", SetTensorSplit(1, -1)},
		{"shares that add up to nothing are refused", "all shares are 0", SetTensorSplit(0, 0)},
		{"more shares than devices are refused", "at most", SetTensorSplit(slices.Repeat([]float32{1}, 4096)...)},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			m, err := New(path, tc.opt)
			if err == nil {
				m.Free()
				t.Fatal("it loaded")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not say %q", err, tc.want)
			}
		})
	}
}

func TestNewReportsProgressToTheEnd(t *testing.T) {
	var seen []float32
	m, err := New(modelPath(t, synth.Qwen3), SetProgress(func(f float32) { seen = append(seen, f) }), SetMMap(false), SetDevices("cpu"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	if len(seen) < 2 || seen[len(seen)-1] != 1 {
		t.Errorf("progress %v does not end at 1", seen)
	}
	for i := 1; i < len(seen); i++ {
		if seen[i] < seen[i-1] {
			t.Errorf("progress goes back: %v", seen)
		}
	}
}

func TestNewStopsWhenCanceled(t *testing.T) {
	cause := errors.New("changed my mind")
	for _, tc := range []struct {
		rule   string
		during bool
	}{{"canceled before", false}, {"canceled while loading", true}} {
		t.Run(tc.rule, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			opts := []ModelOption{SetCancel(ctx)}
			if tc.during {
				opts = append(opts, SetProgress(func(float32) { cancel(cause) }))
			} else {
				cancel(cause)
			}
			m, err := New(modelPath(t, synth.GPTOSS), opts...)
			if m != nil || !errors.Is(err, cause) {
				t.Errorf("New gave %v, %v; want the cause", m, err)
			}
		})
	}
}

func TestInfo(t *testing.T) {
	for _, tc := range []struct {
		arch   string
		window int
		hybrid bool
	}{{synth.Qwen2, 0, false}, {synth.Qwen3, 0, false}, {synth.Qwen35, 0, true}, {synth.GPTOSS, 128, false}} {
		t.Run(tc.arch, func(t *testing.T) {
			m := shared(t, tc.arch)
			info := m.Info()
			if info.Architecture != tc.arch || info.SlidingWindow != tc.window || info.Hybrid != tc.hybrid || info.Recurrent {
				t.Errorf("info %+v", info)
			}
			if info.FileType != "Q8_0" || !info.Quantized || info.NativeMXFP4 || info.TensorTypes["q8_0"] == 0 {
				t.Errorf("quantization of %+v", info)
			}
			if info.Embedding != 64 || info.ContextTrain != 32768 || info.Params == 0 || info.SizeBytes == 0 {
				t.Errorf("shape of %+v", info)
			}
			if !info.ChatTemplate || m.template == "" || info.Name == "" || info.Description != fmt.Sprintf("%s %s %s", tc.arch, sizeName(info.Params), info.FileType) {
				t.Errorf("texts of %+v", info)
			}
			if meta := m.Metadata(); meta["general.architecture"] != tc.arch || meta["tokenizer.ggml.model"] != "gpt2" {
				t.Errorf("metadata %v", meta)
			}
		})
	}
}

func TestSizesAreNamedAsModelsAre(t *testing.T) {
	for params, want := range map[uint64]string{
		0: "0M", 5_762_304: "5.8M", 9_960_000: "10M", 134_515_008: "135M", 999_600_000: "1B", 1_720_574_976: "1.7B", 32_762_123_264: "33B",
	} {
		if got := sizeName(params); got != want {
			t.Errorf("%d: %s, want %s", params, got, want)
		}
	}
}

func TestInfoTellsTheTypesApart(t *testing.T) {
	for _, tc := range []struct {
		typ               string
		quantized, mxfp4  bool
		fileType, tensors string
	}{
		{"f32", false, false, "all F32", "f32"},
		{"f16", false, false, "F16", "f16"},
		{"mxfp4", true, true, "MXFP4 MoE", "mxfp4"},
	} {
		t.Run(tc.typ, func(t *testing.T) {
			spec, err := synth.Preset("tiny", synth.GPTOSS)
			if err != nil {
				t.Fatal(err)
			}
			spec.Type, spec.Context = tc.typ, math.MaxUint32
			path := filepath.Join(t.TempDir(), "m.gguf")
			if err := synth.Write(path, spec); err != nil {
				t.Fatal(err)
			}
			m, err := New(path)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Free()
			info := m.Info()
			if info.ContextTrain != math.MaxUint32 {
				t.Errorf("trained on %d tokens", info.ContextTrain)
			}
			if info.Quantized != tc.quantized || info.NativeMXFP4 != tc.mxfp4 || info.FileType != tc.fileType || info.TensorTypes[tc.tensors] == 0 {
				t.Errorf("info %+v", info)
			}
			if experts := info.ExpertTypes["mxfp4"]; (experts > 0) != tc.mxfp4 || experts != info.TensorTypes["mxfp4"] {
				t.Errorf("%d experts of %d tensors in MXFP4", experts, info.TensorTypes["mxfp4"])
			}
		})
	}
}

func TestSamplingDefaultsComeFromTheFile(t *testing.T) {
	m := &Model{metadata: map[string]string{"general.sampling.temp": "0.6", "general.sampling.top_k": "20", "general.sampling.top_p": "bad"}}
	for name, want := range map[string]float32{"temp": 0.6, "top_k": 20} {
		if got := m.SamplingDefault(name); got == nil || *got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if m.SamplingDefault("top_p") != nil || shared(t, synth.GPTOSS).SamplingDefault("temp") != nil {
		t.Error("defaults of a file that has none")
	}
}

func TestVocabOnlyModelHasNoContext(t *testing.T) {
	m := private(t, SetVocabOnly(true))
	defer m.Free()
	if _, err := m.NewContext(); err == nil || !strings.Contains(err.Error(), "SetVocabOnly") {
		t.Errorf("NewContext: %v", err)
	}
	if got := tokenize(t, m, "the"); len(got) == 0 {
		t.Error("no tokens")
	}
}

// Tokenizing the longest texts takes minutes, and must not block samplers of requests.
func TestOpenAndCloseDoNotWaitForTokenize(t *testing.T) {
	m := private(t)
	m.mu.RLock() // as Tokenize holds it
	done := make(chan error)
	go func() {
		s, err := m.NewSampler(SamplerConfig{})
		if err == nil {
			err = s.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
		m.mu.RUnlock()
	case <-time.After(10 * time.Second):
		t.Error("a sampler waits for it")
		m.mu.RUnlock()
		<-done
	}
	if err := m.Free(); err != nil {
		t.Error(err)
	}
}

func TestFreeRefusesWhileInUse(t *testing.T) {
	m := private(t)
	c, err := m.NewContext(SetContext(64))
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.NewSampler(SamplerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := m.NewTemplate("")
	if err != nil {
		t.Fatal(err)
	}
	for _, closer := range []interface{ Close() error }{c, s, tmpl} {
		if err := m.Free(); !errors.Is(err, ErrInUse) {
			t.Fatalf("Free with something open: %v", err)
		}
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
		if err := closer.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("second Close of %T: %v", closer, err)
		}
	}
	if err := m.Free(); err != nil {
		t.Fatalf("Free with nothing open: %v", err)
	}
	if err := m.Free(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Free: %v", err)
	}
}

func TestUseAfterCloseIsAnError(t *testing.T) {
	m := private(t)
	c, _ := m.NewContext(SetContext(64))
	s, _ := m.NewSampler(SamplerConfig{})
	tmpl, _ := m.NewTemplate("")
	row := make([]float32, m.Vocab().Size())
	c.Close()
	s.Close()
	tmpl.Close()
	if err := m.Free(); err != nil {
		t.Fatal(err)
	}
	second := func(_ any, err error) error { return err }
	mem := c.Memory()
	for name, err := range map[string]error{
		"Decode":      c.Decode([]Row{{1, 0, 0, true}}),
		"Logits":      second(c.Logits(0)),
		"Copy":        mem.Copy(0, 1, 0, -1),
		"Remove":      mem.Remove(0, 0, -1),
		"Clear":       mem.Clear(true),
		"Sample":      second(s.Sample(row)),
		"Accept":      s.Accept(1),
		"Clone":       second(s.Clone()),
		"Render":      second(tmpl.Render([]byte(`{}`), time.Now())),
		"NewContext":  second(m.NewContext()),
		"NewSampler":  second(m.NewSampler(SamplerConfig{})),
		"NewTemplate": second(m.NewTemplate("")),
		"Tokenize":    second(m.Vocab().Tokenize("hi", false, false)),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after close: %v", name, err)
		}
	}
	if first, last := mem.Range(0); first != -1 || last != -1 {
		t.Error("a closed memory has positions")
	}
	c.Abort() // must not touch freed memory
	if m.Vocab().Size() == 0 || len(m.Vocab().Piece(65, true)) == 0 {
		t.Error("the vocabulary's facts are gone")
	}
}
