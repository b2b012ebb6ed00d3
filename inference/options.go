package inference

import (
	"time"

	"github.com/rs/zerolog"
)

// Options says what to load and how. Where a field says auto, Open decides.
type Options struct {
	// Path is the model file; "" is the default one, which the program embeds.
	Path string
	// Quantization is "auto" or "none", which refuses a quantized file.
	Quantization string
	// KVType is the type of the KV cache; "auto" is f16.
	KVType string
	// ContextLength is the size of the KV cache in tokens; 0: auto.
	ContextLength int
	// Device is "auto", "cpu" or device names separated by commas.
	Device string
	// GPULayers is how many layers go to the GPU; -1: all.
	GPULayers int
	// TensorSplit is the share of each device.
	TensorSplit []float32
	// Contexts is how many contexts share the work; 0: one.
	Contexts int
	// CacheRAM is the host memory for evicted prefixes, of all contexts together, in
	// bytes; 0: none.
	CacheRAM uint64
	// Parallel, BatchSize and Threads, of each context, are 0 for auto.
	Parallel, BatchSize, Threads int
	// DraftRows is scheduler.Config's; -1: auto, which is 0 where every answer has a fixed
	// length, since guesses depend on what is said.
	DraftRows int
	// GGMLAttention computes attention on the CPU as llama.cpp does by itself: see
	// llama.SetSharedAttention, which it sets for the process.
	GGMLAttention bool
	// QueueLimit is how many candidates may wait or run, QueueTime how long the wait may
	// become; 0: as long as it takes.
	QueueLimit int
	QueueTime  time.Duration

	// Agent settings, checked by the caller.
	Agent              string // agent.FullHistory ("" too) or agent.HistorySummarized
	SummaryBudget      int    // of a prompt; 0: agent.DefaultSummaryBudget, or less where the context is small
	SummaryCharacters  bool   // the budget counts characters
	SummaryMaxTokens   int    // of a summary; 0: agent.DefaultSummaryMaxTokens, or less where the budget is small
	SummaryKeep        int    // messages of the history that stay behind a summary
	Format             string // auto, qwen, gpt-oss, llama, template
	ChatTemplate       string // Jinja source; "": the model's own
	OutputStyle        string
	Constrain          string
	NoForcedTokens     bool // see scheduler.Config
	NoPrefixCache      bool // the same
	Reproducible       bool // scheduler.Config's Alone
	CallsPerRobot      string
	NoRepetitionStop   bool // agent.Config's KeepRepeating
	MixedOutput        string
	DefaultRobot       string
	EnableThinking     bool
	ReasoningEffort    string
	MaxNewTokens       int
	FixedTokens        int // above 0: in place of MaxNewTokens, with agent.Config's IgnoreEnd
	HistoryMaxMessages int
	PromptLogDir       string
	Seed               uint64

	// Sampling; nil: the model file's value, else the protocol's default.
	Temperature, TopP, MinP *float64
	TopK                    *int

	// Progress hears the part of the model that is loaded, from 0 to 1.
	Progress func(fraction float32)
	Log      zerolog.Logger
	// Build is llama.SetBuild's; "": what the Go toolchain recorded.
	Build string
}
