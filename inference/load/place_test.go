package load

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd/llama"
	"agentd/llama/synth"
)

func TestDevicesAreChosenByNameAndLayers(t *testing.T) {
	two := []llama.Device{{Name: "CUDA0", Description: "a"}, {Name: "CUDA1", Description: "b"}}
	for name, test := range map[string]struct {
		opts    Config
		gpus    []llama.Device
		devices []string
		layers  int
		err     string
	}{
		"auto without a GPU":      {Config{Device: "auto", GPULayers: -1}, nil, []string{"cpu"}, 0, ""},
		"auto with GPUs":          {Config{Device: "auto", GPULayers: -1}, two, []string{"CUDA0", "CUDA1"}, -1, ""},
		"cpu beside GPUs":         {Config{Device: "CPU", GPULayers: -1}, two, []string{"cpu"}, 0, ""},
		"no layers on the GPU":    {Config{Device: "auto"}, two, []string{"cpu"}, 0, ""},
		"one by name":             {Config{Device: "cuda1", GPULayers: 5}, two, []string{"CUDA1"}, 5, ""},
		"one by torch's name":     {Config{Device: "cuda:1", GPULayers: -1}, two, []string{"CUDA1"}, -1, ""},
		"all by kind":             {Config{Device: "cuda", GPULayers: -1}, two, []string{"CUDA0", "CUDA1"}, -1, ""},
		"an order":                {Config{Device: "CUDA1, CUDA0,cuda", GPULayers: -1}, two, []string{"CUDA1", "CUDA0"}, -1, ""},
		"shares":                  {Config{Device: "cuda:0=3, CUDA1=1", GPULayers: -1}, two, []string{"CUDA0", "CUDA1"}, -1, ""},
		"an unknown name":         {Config{Device: "CUDA7", GPULayers: -1}, two, nil, 0, "Config.Device cuda7: there is no such device; use cpu or one of CUDA0, CUDA1"},
		"a GPU that is not there": {Config{Device: "cuda", GPULayers: -1}, nil, nil, 0, "make cuda"},
		"layers without a GPU":    {Config{Device: "auto", GPULayers: 4}, nil, nil, 0, "Config.GPULayers 4"},
		"a share without a GPU":   {Config{Device: "cuda0=1", GPULayers: -1}, nil, nil, 0, "there is no GPU here"},
		"a share of nothing":      {Config{Device: "CUDA0=0,CUDA1=1", GPULayers: -1}, two, nil, 0, "Config.Device cuda0=0: the share must be a number above 0"},
		"a share that is a word":  {Config{Device: "CUDA0=x", GPULayers: -1}, two, nil, 0, "above 0"},
		"a share for one of two":  {Config{Device: "CUDA0=1,CUDA1", GPULayers: -1}, two, nil, 0, "1 shares for 2 devices"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := chooseDevices(test.opts, test.gpus)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v does not mention %q", err, test.err)
				}
				return
			}
			if err != nil || !slices.Equal(p.devices, test.devices) || p.layers != test.layers {
				t.Errorf("got %v, %d layers, %v; want %v, %d", p.devices, p.layers, err, test.devices, test.layers)
			}
			if want := strings.Contains(test.opts.Device, "="); want != slices.Equal(p.shares, []float32{3, 1}) {
				t.Errorf("shares %v of %s", p.shares, test.opts.Device)
			}
			if p.gpu() != (test.layers != 0) || (p.describe() == "CPU") == p.gpu() {
				t.Errorf("%q with gpu() %v", p.describe(), p.gpu())
			}
		})
	}
}

func TestFreeMemoryIsReadAfterLoading(t *testing.T) {
	p := deviceGroup{layers: -1, gpus: []llama.Device{{Name: "CUDA1", MemoryFree: 100}, {Name: "CUDA2", MemoryFree: 100}}}
	now := []llama.Device{{Name: "CPU", MemoryFree: 7}, {Name: "CUDA0", MemoryFree: 50}, {Name: "CUDA1", MemoryFree: 20}, {Name: "CUDA2", MemoryFree: 3}}
	if got := p.freeMemory(now); got != 23 {
		t.Errorf("%d bytes, want those that are left on CUDA1 and CUDA2: 23", got)
	}
}

func TestContextsAreDividedAmongDevices(t *testing.T) {
	gpus := []llama.Device{{Name: "CUDA0"}, {Name: "CUDA1"}, {Name: "CUDA2"}, {Name: "CUDA3"}}
	for _, test := range []struct {
		gpus, contexts int
		shares         bool
		mode           string
		want           []string // devices of each model; nil: an error
	}{
		{0, 1, false, "", []string{"cpu"}},
		{0, 3, false, "", []string{"cpu"}},
		{1, 1, false, "", []string{"CUDA0"}},
		{1, 3, true, "", []string{"CUDA0"}},
		{4, 1, true, "", []string{"CUDA0 CUDA1 CUDA2 CUDA3"}},
		{4, 2, true, "", []string{"CUDA0 CUDA1", "CUDA2 CUDA3"}},
		{4, 4, false, "", []string{"CUDA0", "CUDA1", "CUDA2", "CUDA3"}},
		{4, 8, false, "", []string{"CUDA0", "CUDA1", "CUDA2", "CUDA3"}},
		{4, 3, false, "", nil},
		{4, 6, false, "", nil},
		{3, 2, false, "", nil},
		{4, 4, true, "", nil},
		{4, 2, false, "tensor", []string{"CUDA0 CUDA1", "CUDA2 CUDA3"}},
		{4, 1, false, "tensor", []string{"CUDA0 CUDA1 CUDA2 CUDA3"}},
		{4, 4, false, "layer", []string{"CUDA0", "CUDA1", "CUDA2", "CUDA3"}},
		{4, 4, false, "tensor", nil},
		{1, 1, false, "tensor", nil},
		{1, 1, false, "layer", []string{"CUDA0"}},
		{0, 1, false, "tensor", nil},
	} {
		cfg := Config{Device: "auto", GPULayers: -1, SplitMode: test.mode}
		p, err := chooseDevices(cfg, gpus[:test.gpus])
		if test.shares {
			p.shares = make([]float32, test.gpus)
		}
		if err != nil {
			t.Fatal(err)
		}
		groups, err := p.split(test.contexts, cfg)
		var got []string
		for _, g := range groups {
			got = append(got, strings.Join(g.devices, " "))
			if g.gpu() != p.gpu() || len(g.gpus) != min(len(g.devices), test.gpus) || test.shares && len(g.shares) != len(g.gpus) {
				t.Errorf("%d contexts on %d GPUs: %+v", test.contexts, test.gpus, g)
			}
		}
		if (err == nil) != (test.want != nil) || !slices.Equal(got, test.want) {
			t.Errorf("%d contexts on %d GPUs: %v, %v; want %v", test.contexts, test.gpus, got, err, test.want)
		}
	}
}

func TestQuantizationNoneRefusesQuantizedFiles(t *testing.T) {
	for name, test := range map[string]struct {
		mode string
		info llama.ModelInfo
		err  []string // parts; none: accepted
	}{
		"auto takes anything":    {"auto", llama.ModelInfo{Quantized: true, NativeMXFP4: true}, nil},
		"none takes plain":       {"none", llama.ModelInfo{Architecture: "qwen3", FileType: "F16"}, nil},
		"none refuses Q8_0":      {"none", llama.ModelInfo{Architecture: "qwen3", Quantized: true, FileType: "Q8_0"}, []string{"f.gguf", "Q8_0", "Config.Quantization auto", "F16"}},
		"none refuses MXFP4":     {"none", llama.ModelInfo{Architecture: "qwen3moe", Quantized: true, NativeMXFP4: true}, []string{"f.gguf", "MXFP4", "needs Config.Quantization auto"}},
		"none refuses GPT-OSS":   {"none", llama.ModelInfo{Architecture: synth.GPTOSS}, []string{"f.gguf", "GPT-OSS", "needs Config.Quantization auto"}},
		"auto takes GPT-OSS":     {"auto", llama.ModelInfo{Architecture: synth.GPTOSS}, nil},
		"the default is to take": {"", llama.ModelInfo{Quantized: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkQuantization(test.mode, "f.gguf", test.info)
			if (err == nil) != (test.err == nil) {
				t.Fatalf("got %v", err)
			}
			for _, part := range test.err {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not mention %q", err, part)
				}
			}
		})
	}
}

func TestContextFitsModelMemoryAndCap(t *testing.T) {
	for name, test := range map[string]struct {
		trained, limit int
		free           uint64
		perCell        float64
		want           int
	}{
		"the model's":                 {40960, 131072, 1 << 40, 1000, 40960},
		"room for several short ones": {4096, 131072, 1 << 40, 1000, minShared},
		"the cap":                     {131072, 32768, 1 << 40, 1000, 32768},
		"half of the memory":          {131072, 32768, 20_000_000, 1000, 10240},
		"never below the least":       {131072, 32768, 1000, 1000, minAutoContext},
		"nor above a small model":     {512, 32768, 1000, 1000, 512},
		"memory unknown":              {131072, 32768, 0, 1000, 32768},
		"a model that tells nothing":  {0, 32768, 1 << 40, 1000, 32768},
		"a multiple of 256":           {40000, 131072, 1 << 40, 1000, 40192},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fitContext(test.trained, test.limit, test.free, test.perCell); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestSmallModelsOnTheCPUShareASmallCache(t *testing.T) {
	const smol = 23040 // bytes of a cell of SmolLM2-135M
	for name, test := range map[string]struct {
		gpu               bool
		trained, contexts int
		weights           uint64
		perCell           float64
		want              int
	}{
		"SmolLM2-135M":            {false, 8192, 2, 97e6, smol, 512 << 20 / smol / 2},
		"in one context":          {false, 8192, 1, 97e6, smol, 512 << 20 / smol},
		"trained on more":         {false, 20000, 2, 97e6, smol, 20000},
		"trained on much more":    {false, 131072, 2, 97e6, smol, autoContextCPU},
		"the default model":       {false, 4096, 2, 11532800, 3072, autoContextCPU},
		"a large model":           {false, 8192, 1, 300 << 20, 114688, autoContextCPU},
		"on a GPU":                {true, 8192, 1, 97e6, smol, autoContextGPU},
		"a state without a cache": {false, 8192, 1, 97e6, 0, autoContextCPU},
	} {
		if got := contextLimit(test.gpu, test.trained, test.contexts, test.weights, test.perCell); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestHostCacheIsSharedByContextsAndBounded(t *testing.T) {
	for name, test := range map[string]struct {
		megabytes int
		free      uint64
		contexts  int
		want      int
		err       string
	}{
		"none":               {0, 1 << 40, 2, 0, ""},
		"shared":             {10, 1 << 40, 2, 5000, ""},
		"memory unknown":     {10, 0, 1, 10000, ""},
		"more than is free":  {10, 9_000_000, 1, 0, "Config.CacheRAM 10 is more than the 9 MB"},
		"too little for use": {1, 1 << 40, 100, 0, "Config.CacheRAM 1 holds 10 tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := hostCells(test.megabytes, test.free, test.contexts, 1000)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}

func TestCellBytes(t *testing.T) {
	// Qwen3-0.6B: 28 layers, 8 KV heads of 128, f16: 28*8*(128+128)*2.
	qwen := map[string]string{
		"qwen3.block_count": "28", "qwen3.embedding_length": "1024",
		"qwen3.attention.head_count": "16", "qwen3.attention.head_count_kv": "8",
		"qwen3.attention.key_length": "128", "qwen3.attention.value_length": "128",
	}
	if got := cellBytes(qwen, "qwen3", "f16"); got != 114688 {
		t.Errorf("Qwen3-0.6B: %v", got)
	}
	if got := cellBytes(qwen, "qwen3", "q8_0"); got != 60928 {
		t.Errorf("Qwen3-0.6B in q8_0: %v", got)
	}
	// Llama 2 7B names neither KV heads nor lengths: 32*32*(128+128)*2.
	llama2 := map[string]string{
		"llama.block_count": "32", "llama.embedding_length": "4096", "llama.attention.head_count": "32",
	}
	if got := cellBytes(llama2, "llama", "f16"); got != 524288 {
		t.Errorf("Llama 2 7B: %v", got)
	}
	for _, kv := range llama.KVTypes() {
		if kvBytes[kv] == 0 {
			t.Errorf("KV type %s has no size", kv)
		}
	}
}

func TestHyperThreadsDoNotCountAsCores(t *testing.T) {
	root := t.TempDir()
	for cpu, siblings := range map[string]string{"cpu0": "0,2\n", "cpu1": "1,3\n", "cpu2": "0,2\n", "cpu3": "1,3\n"} {
		dir := filepath.Join(root, cpu, "topology")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "thread_siblings_list"), []byte(siblings), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := physicalCores(root); got != 2 {
		t.Errorf("got %d cores, want 2", got)
	}
	if got := physicalCores(filepath.Join(root, "nothing")); got != 0 {
		t.Errorf("got %d cores from nothing", got)
	}
	if got := autoThreads(); got < 1 {
		t.Errorf("got %d threads", got)
	}
}
