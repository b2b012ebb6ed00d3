package load

import (
	"agentd/agent"
	"agentd/agent/format"
	"agentd/llama"
	"agentd/scheduler"
	"agentd/scheduler/generation"
	"agentd/scheduler/remote"

	"github.com/rs/zerolog"
)

// Auto lets Open decide, for fields whose 0 means something else.
const Auto = -1

// Config configures a Service. Errors of [Open] name its fields, as Config.Device.
type Config struct {
	Path         string // the model file; "": the default model, which the program embeds
	Alias        string // the model's name for clients, metrics and traces; "": that in the file, or the engines' own
	LoRA         []LoRA // adapters that inputs may name. They are loaded with the model.
	WeightsDir   string // the directory whose files may replace the model or become adapters meanwhile; "": none may
	Quantization string // "auto" or "none", which refuses a quantized file
	KVType       string // the type of the KV cache; "auto": f16
	// ContextLength is the size of each KV cache in tokens; 0: Open decides.
	ContextLength int
	// Device is "auto", "cpu" or device names separated by commas. A model that is divided among them is
	// divided by shares if each name has one, as in CUDA0=3,CUDA1=1.
	Device    string
	GPULayers int    // layers on the GPU; -1: all
	SplitMode string // how a model is divided among several devices: "layer", also "", or "tensor"
	Contexts  int    // that share the work; 0: one
	CacheRAM  int    // the host memory for evicted prefixes of all contexts, in MB; 0: none
	Threads   int    // CPU threads of each context; 0: Open decides
	// Reproducible gives the same input the same bytes with inference_mode, whatever the load. Where
	// kernels do not, each input is computed alone.
	Reproducible bool
	// CPUAttention is how the CPU computes attention in this process: Shared, also "", F32 (see
	// [llama.SetF32Attention]) or GGML, which leaves it to llama.cpp (see [llama.SetSharedAttention]).
	CPUAttention string
	// FixedTokens, above 0, is the length of every answer, for benchmarks, in place of Agent.MaxNewTokens.
	FixedTokens int

	// Sampling; nil: the model file's value, else [agent.DefaultSampling].
	Temperature, TopP, MinP *float64
	TopK                    *int

	// Remote asks engines at URLs instead of the embedded one. Path is then only read for the vocabulary; it may
	// also be a Hugging Face directory.
	Remote remote.Config
	// Scheduler is the policy. Open completes MaxRunning and BatchTokens when they are 0 and DraftRows when it is
	// Auto. It sets PrefillChunk, Threads and HostCells.
	Scheduler scheduler.Config
	// Agent configures prompts and answers. Open completes MaxNewTokens and Summary when they are 0 or Auto. It sets
	// Architecture, IgnoreEnd, Sampling and LogError.
	Agent agent.Config

	Progress func(part float32)           // receives the loaded part of the model, from 0 to 1
	Hangs    func(*generation.StuckError) // is called when the first step of weights that are being loaded does not end
	Log      zerolog.Logger
	Build    string // the argument of [llama.SetBuild]
}

// LoRA is a LoRA adapter: a GGUF file, and the name by which inputs ask for it.
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
