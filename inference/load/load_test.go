package load

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"agentd/agent"
	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler"
)

// TestStepsFitASmallContext: a context smaller than the batch has smaller steps.
func TestStepsFitASmallContext(t *testing.T) {
	path, err := synth.Tiny("", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	for name, batch := range map[string]int{"chosen": 0, "given": 1024} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), Config{Path: path, Device: "cpu", ContextLength: 256, Threads: 1, Log: zerolog.Nop(), Scheduler: scheduler.Config{Policy: scheduler.Policy{BatchTokens: batch}, QueueLimit: 8}, Agent: agent.Config{MaxNewTokens: 16}})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Info.BatchSize; got != 256 {
				t.Errorf("steps of %d tokens, want 256", got)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestKVTypeKeepsSharedAttention: the default number of running sequences stays the same too.
func TestKVTypeKeepsSharedAttention(t *testing.T) {
	path, err := synth.Tiny("", synth.GPTOSS) // whose heads are whole blocks of Q8_0
	if err != nil {
		t.Fatal(err)
	}
	want, f32 := EngineInfo{Attention: Shared, Parallel: autoParallelCPU}, EngineInfo{Attention: F32, Parallel: autoParallelCPU}
	if llama.SetSharedAttention(true); !llama.SharedAttention() { // a CPU without AVX2
		want = EngineInfo{Attention: GGML, Parallel: autoParallelGGML}
		f32 = want
	}
	for _, test := range []struct {
		kvType, attention string
		want              EngineInfo
	}{
		{"f16", "", want}, {"bf16", Shared, want}, {"q8_0", "", want}, {"q4_0", "", want}, {"f16", F32, f32},
		{"q8_0", GGML, EngineInfo{Attention: GGML, Parallel: autoParallelGGML}},
	} {
		t.Run(fmt.Sprint(test.kvType, " ", test.want.Attention), func(t *testing.T) {
			defer llama.SetSharedAttention(true)
			s, err := Open(t.Context(), Config{Path: path, Device: "cpu", KVType: test.kvType, CPUAttention: test.attention, ContextLength: 512, Threads: 1, Log: zerolog.Nop(), Scheduler: scheduler.Config{QueueLimit: 8}, Agent: agent.Config{MaxNewTokens: 16}})
			if err != nil {
				t.Fatal(err)
			}
			if f := s.Info; f.Attention != test.want.Attention || f.Parallel != test.want.Parallel {
				t.Errorf("attention %s, %d at once, want %s and %d", f.Attention, f.Parallel, test.want.Attention, test.want.Parallel)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMaxNewTokensBeyondTrainingIsRefused when the model is loaded, although the cache is larger.
func TestMaxNewTokensBeyondTrainingIsRefused(t *testing.T) {
	spec, err := synth.Preset("tiny", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	spec.Small, spec.Context = true, 1024
	path := filepath.Join(t.TempDir(), "short.gguf")
	if err := synth.Write(path, spec); err != nil {
		t.Fatal(err)
	}
	for name, length := range map[string]int{"chosen": 0, "given": 8192} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), Config{Path: path, Device: "cpu", ContextLength: length, Threads: 1, Log: zerolog.Nop(), Scheduler: scheduler.Config{QueueLimit: 8}, Agent: agent.Config{MaxNewTokens: 1024}})
			if err == nil {
				t.Fatal(s.Close(), "it was opened")
			}
			if !strings.Contains(err.Error(), "Config.Agent.MaxNewTokens 1024") || !strings.Contains(err.Error(), "trained on") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestHostCacheIsRefusedForRecurrentModels with the name of the field.
func TestHostCacheIsRefusedForRecurrentModels(t *testing.T) {
	for _, arch := range []string{synth.GPTOSS, synth.Qwen35} {
		t.Run(arch, func(t *testing.T) {
			path, err := synth.Tiny("", arch)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), Config{Path: path, Device: "cpu", ContextLength: 512, CacheRAM: 50, Threads: 1, Log: zerolog.Nop(), Scheduler: scheduler.Config{QueueLimit: 8}, Agent: agent.Config{MaxNewTokens: 16}})
			if err == nil {
				t.Fatal(s.Close(), "it was opened")
			}
			if !strings.Contains(err.Error(), "Config.CacheRAM 50 can't be used with this model") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestLoadErrorSaysWhatToChange: the way of dividing a model only where llama.cpp refuses it.
func TestLoadErrorSaysWhatToChange(t *testing.T) {
	for name, c := range map[string]struct{ mode, reason, want string }{
		"an architecture that can't be divided": {llama.SplitTensor, "LLAMA_SPLIT_MODE_TENSOR not implemented for architecture 'mamba'", "Config.SplitMode tensor: "},
		"any other reason":                      {llama.SplitLayer, "tensor 'x' data is not within the file bounds", "check that it is a complete GGUF file"},
	} {
		t.Run(name, func(t *testing.T) {
			err := loadError("m.gguf", c.mode, errors.New(c.reason)).Error()
			for _, part := range []string{c.want, c.reason, "m.gguf"} {
				if !strings.Contains(err, part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
}

func TestDraftRowsHaveDefaultsByConfig(t *testing.T) {
	for rule, tc := range map[string]struct {
		opts Config
		want int
	}{
		"a little on a CPU":      {Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{DraftRows: -1}}}, autoDraftCPU},
		"the configured number":  {Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{DraftRows: 5, MaxRunning: 1}}}, 5},
		"none with fixed tokens": {Config{FixedTokens: 8, Scheduler: scheduler.Config{Policy: scheduler.Policy{DraftRows: -1}}}, 0},
	} {
		t.Run(rule, func(t *testing.T) {
			tc.opts.Device, tc.opts.Threads, tc.opts.Log, tc.opts.Scheduler.QueueLimit = "cpu", 1, zerolog.Nop(), 8
			m, err := Open(t.Context(), tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			if m.Info.DraftRows != tc.want {
				t.Errorf("%d rows, want %d", m.Info.DraftRows, tc.want)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCacheBeyondTheFreeMemoryIsWarnedOf before it is allocated.
func TestCacheBeyondTheFreeMemoryIsWarnedOf(t *testing.T) {
	for name, test := range map[string]struct {
		free uint64
		gpu  bool
		line string
	}{
		"unknown":        {0, false, `{"level":"info","contexts":2,`},
		"enough":         {4e9, false, `{"level":"info","contexts":2,`},
		"less":           {3e9, false, `{"level":"warn","free":"3000 MB","fix":"if the system kills agentd, `},
		"less, on a GPU": {3e9, true, `{"level":"info","contexts":2,`},
	} {
		t.Run(name, func(t *testing.T) {
			var line strings.Builder
			logCache(zerolog.New(&line), &EngineInfo{Contexts: 2, ContextLength: 1e6}, 4e9, test.free, test.gpu)
			if !strings.HasPrefix(line.String(), test.line) || !strings.Contains(line.String(), `"size":"4000 MB"`) {
				t.Errorf("got %s", &line)
			}
		})
	}
}
