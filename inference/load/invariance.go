package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentd/llama"
)

// invariantTypes are the types of weights whose matrix products on a CPU are batch-invariant. ggml's
// products of experts are batch-invariant with the types of invariantExperts.
var (
	invariantTypes = []string{
		"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "mxfp4", "q4_K", "q5_K", "q6_K",
	}
	invariantExperts = append([]string{"q2_K", "q3_K"}, invariantTypes...)
)

// otherAttention are the architectures with ALiBi or capped logits, for which ggml computes attention.
var otherAttention = []string{"baichuan", "bloom", "gemma2", "grok", "mpt", "refact"}

// variance returns the reason why the bits of a row may depend on other rows of the batch; "": the model is
// batch-invariant. docs/decisions/batch-invariance.md explains the reasons.
func variance(gpu bool, attention string, info llama.ModelInfo) string {
	switch {
	case gpu:
		return "a device computes"
	case attention == GGML:
		return "llama.cpp's own attention computes"
	case !llama.Patched():
		return "llama.cpp lacks agentd's patch"
	case slices.Contains(otherAttention, info.Architecture):
		return "llama.cpp's own attention computes the architecture " + info.Architecture
	}
	var others []string
	for _, t := range slices.Sorted(maps.Keys(info.TensorTypes)) {
		experts := info.ExpertTypes[t]
		matrices := info.TensorTypes[t] - experts
		if experts > 0 && !slices.Contains(invariantExperts, t) || matrices > 0 && !slices.Contains(invariantTypes, t) {
			others = append(others, t)
		}
	}
	if others != nil {
		return "it has weights of type " + strings.Join(others, ", ")
	}
	return ""
}

// chooseIsolation sets m.Info.Variance. With Config.Reproducible, it sets Isolate if the model is not batch-invariant.
func (m *Model) chooseIsolation(cfg *Config, gpu bool) error {
	m.Info.Variance = variance(gpu, m.Info.Attention, m.Llama.Info())
	if !cfg.Reproducible || m.Info.Variance == "" {
		return nil
	}
	if cfg.CacheRAM > 0 {
		return fmt.Errorf("Config.CacheRAM %d has nothing to keep: Config.Reproducible computes each input from its first token, "+
			"since %s; remove one of the two", cfg.CacheRAM, m.Info.Variance)
	}
	m.Info.Isolates, cfg.Scheduler.Isolate = true, true
	if cfg.Threads == 0 {
		cfg.Threads = autoThreads() // results may depend on their number
	}
	return nil
}

// SameBytes returns, for the log, whether the same input gets the same bytes under any load.
func (f *EngineInfo) SameBytes() string {
	switch {
	case f.Variance == "":
		return "under any load, at full speed"
	case f.Isolates:
		return "under any load, each input alone: " + f.Variance
	}
	return "not under any load: " + f.Variance
}
