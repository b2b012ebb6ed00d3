package load

import (
	"strings"
	"testing"

	"agentd/llama"
	"agentd/llama/synth"
)

func TestVarianceNamesWhatDependsOnTheBatch(t *testing.T) {
	if !llama.SharedAttention() {
		t.Skip("ggml computes on this machine")
	}
	types := func(tensors, experts map[string]int) llama.ModelInfo {
		return llama.ModelInfo{Architecture: "qwen3", TensorTypes: tensors, ExpertTypes: experts}
	}
	usual := types(map[string]int{"f32": 9, "q4_K": 6, "q6_K": 1}, nil)
	for name, test := range map[string]struct {
		gpu       bool
		attention string
		info      llama.ModelInfo
		want      string
	}{
		"usual weights":          {false, Shared, usual, ""},
		"F32 attention":          {false, F32, usual, ""},
		"a device":               {true, "device", usual, "device"},
		"ggml's attention":       {false, GGML, usual, "attention"},
		"capped logits":          {false, Shared, llama.ModelInfo{Architecture: "gemma2"}, "gemma2"},
		"a variant type":         {false, Shared, types(map[string]int{"f32": 9, "iq3_s": 1}, nil), "iq3_s"},
		"matrices of MXFP4":      {false, Shared, types(map[string]int{"mxfp4": 3}, map[string]int{"mxfp4": 2}), ""},
		"experts of MXFP4":       {false, Shared, types(map[string]int{"mxfp4": 3, "q8_0": 1}, map[string]int{"mxfp4": 3}), ""},
		"experts of IQ2":         {false, Shared, types(map[string]int{"iq2_xs": 3}, map[string]int{"iq2_xs": 3}), "iq2_xs"},
		"several variant types":  {false, Shared, types(map[string]int{"q2_K": 1, "iq2_s": 1}, nil), "iq2_s, q2_K"},
		"a type of later models": {false, Shared, types(map[string]int{"q9_9": 1}, nil), "q9_9"},
	} {
		got := variance(test.gpu, test.attention, test.info)
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Reproducible isolates only where results depend on the load, and refuses what it would ignore.
func TestReproducibleIsolatesOnlyVariantModels(t *testing.T) {
	path, err := synth.Tiny("", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	m, err := llama.New(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	s := &Model{Llama: m, Info: EngineInfo{Attention: GGML}}
	for name, test := range map[string]struct {
		cfg               Config
		isolates, refused bool
	}{
		"not asked for":  {Config{}, false, false},
		"asked for":      {Config{Reproducible: true}, true, false},
		"with host RAM":  {Config{Reproducible: true, CacheRAM: 9}, false, true},
		"only host RAM":  {Config{CacheRAM: 9}, false, false},
		"with 3 threads": {Config{Reproducible: true, Threads: 3}, true, false},
	} {
		s.Info.Isolates = false
		threads := test.cfg.Threads
		err := s.chooseIsolation(&test.cfg, false)
		if s.Info.Isolates != test.isolates || test.cfg.Scheduler.Isolate != test.isolates || (err != nil) != test.refused || s.Info.Variance == "" {
			t.Errorf("%s: %+v, %v", name, s.Info, err)
		}
		if test.isolates && (test.cfg.Threads == 0 || threads > 0 && test.cfg.Threads != threads) {
			t.Errorf("%s: %d threads", name, test.cfg.Threads)
		}
	}
}
