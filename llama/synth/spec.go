// Package synth writes GGUF model files with random weights from a seed, for tests and measurements. They load and
// compute like real models of their architecture, take a few megabytes, and generate noise. The package also has the
// cache of model files that the program makes (Keep, CacheDir).
package synth

import (
	"fmt"
	"slices"
	"strings"
)

// Architectures that Write supports.
const (
	Qwen2    = "qwen2"
	Qwen3    = "qwen3"
	Qwen3MoE = "qwen3moe"
	Qwen35   = "qwen35" // hybrid: three of four layers keep a recurrent state
	GPTOSS   = "gpt-oss"
	Llama    = "llama" // Llama 3.1 and later
)

// Spec describes a model to write. Preset returns usual ones.
type Spec struct {
	Arch string
	Name string // general.name
	Layers, Embedding, FFN,
	Heads, KVHeads, HeadDim,
	Context int
	Experts, ExpertsUsed int // for qwen3moe and gpt-oss; FFN is the width of one expert
	SlidingWindow        int // for gpt-oss, in tokens

	// Type is the type of the matrices: "f32", "f16", "bf16", "q8_0", or "mxfp4" for experts
	// in MXFP4 and other matrices in Q8_0. Vectors are always F32.
	Type string
	Seed uint64

	// Small gives the qwen architectures a vocabulary of a few hundred tokens instead of Qwen's, for
	// tests that do not need long rows of logits. gpt-oss and llama always have a small one.
	Small bool
	// ChatTemplate is a Jinja source; "" means this package's template for the architecture.
	ChatTemplate string

	// Bias adds about this much to the logits of tokens, given by their text. In a vocabulary of real size the best
	// token is about 4.5 LogitSpread above the mean. So a token with a bias of 13 is the best in about one of ten rows.
	// Without a bias a random model never ends a text.
	Bias map[string]float32

	// Merged is an adapter that is added to the matrices; nil for none.
	Merged *Adapter `json:",omitempty"`
}

// LogitSpread is about the standard deviation of a row of logits.
const LogitSpread = 4

// validate checks the fields that users set. Shapes come from Preset.
func (s *Spec) validate() error {
	if known := []string{Qwen2, Qwen3, Qwen3MoE, Qwen35, GPTOSS, Llama}; !slices.Contains(known, s.Arch) {
		return fmt.Errorf("synth: architecture %q is not one of %s", s.Arch, strings.Join(known, ", "))
	}
	if _, ok := matrixTypes[s.Type]; !ok {
		return fmt.Errorf("synth: type %q is not one of f32, f16, bf16, q8_0, mxfp4", s.Type)
	}
	return nil
}

// recurrentInterval: in qwen35 every fourth layer has full attention.
const recurrentInterval = 4

// Preset returns the Spec of an architecture in a size. All have "tiny", a few megabytes. qwen3 has "0.1b", and "0.6b"
// and "8b" with the shapes of Qwen3-0.6B and Qwen3-8B. gpt-oss has "20b" with the shape of GPT-OSS 20B and a small
// vocabulary. qwen3moe and gpt-oss have "moe": 604 M parameters, 32 experts, 4 of them for a token.
func Preset(size, arch string) (Spec, error) {
	s := Spec{
		Arch: arch, Name: "random weights: " + arch + " " + size, Type: "q8_0", Seed: 1,
		Layers: 2, Embedding: 64, FFN: 128, Heads: 4, KVHeads: 2, HeadDim: 16, Context: 32768,
		Bias: qwenBias,
	}
	switch {
	case size == "0.6b" && arch == Qwen3:
		s.Layers, s.Embedding, s.FFN, s.Heads, s.KVHeads, s.HeadDim, s.Context = 28, 1024, 3072, 16, 8, 128, 40960
	case size == "8b" && arch == Qwen3:
		s.Layers, s.Embedding, s.FFN, s.Heads, s.KVHeads, s.HeadDim, s.Context = 36, 4096, 12288, 32, 8, 128, 40960
	case size == "moe" && (arch == Qwen3MoE || arch == GPTOSS):
		s.Layers, s.Embedding, s.FFN, s.Heads, s.KVHeads, s.HeadDim = 12, 1024, 512, 16, 8, 128
		s.Experts, s.ExpertsUsed = 32, 4
		if arch == GPTOSS {
			s.HeadDim, s.SlidingWindow, s.Bias = 64, 128, harmonyBias
		}
	case size == "20b" && arch == GPTOSS:
		s.Layers, s.Embedding, s.FFN, s.Heads, s.KVHeads, s.HeadDim, s.Context = 24, 2880, 2880, 64, 8, 64, 131072
		s.Experts, s.ExpertsUsed, s.SlidingWindow, s.Bias = 32, 4, 128, harmonyBias
	case size == "0.1b" && arch == Qwen3: // 103 M parameters with the real vocabulary
		s.Layers, s.Embedding, s.FFN, s.Heads, s.KVHeads, s.HeadDim = 8, 512, 1536, 8, 4, 64
	case size != "tiny":
		return Spec{}, fmt.Errorf("synth: no preset %q for %q: there are \"tiny\" for every architecture, \"0.1b\", \"0.6b\" and \"8b\" for %s, \"moe\" for %s and %s, \"20b\" for %s", size, arch, Qwen3, Qwen3MoE, GPTOSS, GPTOSS)
	case arch == Qwen35:
		s.Layers = recurrentInterval
	case arch == Qwen3MoE:
		s.Experts, s.ExpertsUsed = 4, 2
	case arch == GPTOSS:
		s.HeadDim, s.Experts, s.ExpertsUsed, s.SlidingWindow, s.Bias = 32, 4, 2, 128, harmonyBias
	case arch == Llama:
		s.Bias = llamaBias
	}
	return s, s.validate()
}

// The tiny models end their texts after some ten tokens, close the strings that
// a grammar lets them open, and begin a tool call now and then.
var (
	qwenBias = map[string]float32{
		"<|im_end|>": 13.5, "<tool_call>": 12.5, "</tool_call>": 12.5, `"`: 12.5, `}`: 10, `,`: 8,
	}
	harmonyBias = map[string]float32{
		"<|return|>": 9, "<|call|>": 7, "<|end|>": 5, "<|channel|>": 2, `"`: 5, `}`: 2,
	}
	llamaBias = map[string]float32{
		"<|eot_id|>": 9, "<|eom_id|>": 7, "<|python_tag|>": 6, "{": 4, `"`: 5, `}`: 2,
	}
)
