package load

import (
	"github.com/rs/zerolog"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/llama"
	"agentd/scheduler"
	"agentd/scheduler/generation"
	"agentd/scheduler/remote"
)

// Auto lets Open choose a value, for fields where 0 has another meaning.
const Auto = -1

// Config configures Open. Its errors name fields as Config.Device.
type Config struct {
	Path         string // the model file; "": the embedded default model
	Alias        string // the model's name for clients, metrics and traces; "": the file's, or that of engines at URLs
	LoRA         []LoRA // adapters to load with the model
	WeightsDir   string // directory of files that may become the model or adapters while it serves; "": none
	Quantization string // "auto", or "none" to refuse a quantized file
	KVType       string // the type of the KV cache; "auto": f16
	// ContextLength is the number of cells of each KV cache; 0: Open decides.
	ContextLength int
	// Device is "auto", "cpu" or device names separated by commas. Each may have a share of the model, as in
	// CUDA0=3,CUDA1=1.
	Device    string
	GPULayers int    // layers on the GPU; -1: all
	SplitMode string // how a model is divided among several devices: "layer", also "", or "tensor"
	Contexts  int    // number of contexts that share the work; 0: one
	CacheRAM  int    // host memory for evicted prefixes of all contexts, in MB
	Threads   int    // CPU threads of each context; 0: Open decides
	// Reproducible: with inference_mode, the same input gets the same bytes under any load. If the kernels are not
	// batch-invariant, each input is computed alone.
	Reproducible bool
	// CPUAttention is how the CPU computes attention in this process: Shared (or ""), F32 (see
	// [llama.SetF32Attention]), or GGML for llama.cpp's own (see [llama.SetSharedAttention]).
	CPUAttention string
	// FixedTokens, if above 0, is the number of tokens of every answer, for benchmarks.
	FixedTokens int

	// Sampling parameters; nil: the model file's, else [agent.DefaultSampling]'s.
	Temperature, TopP, MinP *float64
	TopK                    *int

	// Remote, if enabled, uses engines at URLs instead of the embedded one. Then Path is only read for the
	// vocabulary; it may also be a Hugging Face directory.
	Remote remote.Config
	// Scheduler configures the engine. Open chooses MaxRunning and BatchTokens if they are 0, and DraftRows if it is
	// Auto. It always sets PrefillChunk, Threads and HostCells.
	Scheduler scheduler.Config
	// Agent configures prompts and answers. Open chooses MaxNewTokens and Summary if they are 0 or Auto. It always sets
	// Architecture, IgnoreEnd, Sampling and LogError.
	Agent agent.Config

	Progress func(part float32)           // called with the loaded part of the model, from 0 to 1
	Hangs    func(*generation.StuckError) // called when the first step of weights that are being loaded is stuck
	Log      zerolog.Logger
	Build    string // the argument of [llama.SetBuild]
}

// LoRA is a LoRA adapter: the name for clients, and the path of a GGUF file or a PEFT directory.
type LoRA struct{ Name, Path string }

// DefaultConfig returns the defaults of a server.
func DefaultConfig() Config {
	return Config{
		Quantization: "auto",
		KVType:       "auto",
		Device:       "auto",
		GPULayers:    -1,
		SplitMode:    llama.SplitLayer,
		CPUAttention: Shared,
		Remote:       remote.Config{API: remote.APIAuto, Retries: remote.DefaultRetries},
		Scheduler:    scheduler.Config{Policy: scheduler.Policy{DraftRows: Auto}, QueueLimit: defaultQueueLimit},
		Agent:        agent.Config{Kind: agent.FullHistory, Format: "auto", Prompt: format.Options{OutputStyle: "qwen_format", MixedOutput: "reject", CallsPerRobot: "one", ReasoningEffort: "low"}, Constrain: agent.ConstrainOn, DefaultRobot: agent.DefaultRobot, MaxNewTokens: Auto},
	}
}

// MaxNewTokens returns the token limit of an answer.
func (c *Config) MaxNewTokens() int {
	switch {
	case c.FixedTokens > 0:
		return c.FixedTokens
	case c.Agent.MaxNewTokens > 0:
		return c.Agent.MaxNewTokens
	case c.Path == "":
		return defaultModelNewTokens
	}
	return agent.DefaultMaxNewTokens
}
