package main

import (
	"time"

	"agentd/agent"
	"agentd/coaching"
)

// Config is everything agentd can be told. Each field is one option: a flag, an
// AGENTD_* variable and a key of the configuration file (see options.go).
// Zero values that mean "decide for me" say so.
type Config struct {
	// Model is the path of a GGUF file; "" is the embedded default model.
	Model string
	// ModelFormat is auto, qwen, gpt-oss, llama or template.
	ModelFormat string
	// Quantization is auto (any file) or none (full-precision files only).
	Quantization string
	// DType is the element type of the KV cache: auto (f16), f32, f16, bf16, q8_0, …
	DType string
	// ChatTemplate is Jinja source or a file that holds it; "" is the model's own.
	ChatTemplate string
	// ContextLength is the size of the KV cache in tokens; 0: decided at load.
	ContextLength int
	// MaxNewTokens ends one candidate's generation.
	MaxNewTokens int

	// The agent's memory.
	Agent            string // agent.FullHistory or agent.HistorySummarized
	SummaryBudget    int    // largest prompt, in SummaryUnit; 0: decided at load
	SummaryUnit      string // unitTokens or unitCharacters
	SummaryMaxTokens int    // longest summary; 0: decided at load
	SummaryKeep      int    // newest messages that stay behind a summary

	// Format and decision making.
	OutputStyle        string // qwen_format or json (template format only)
	Constrain          string // on: tool calls are kept valid by a grammar; off
	ForcedTokens       string // on: what the grammar forces takes no step of its own; off
	MixedOutput        string // reject or tools: text beside tool calls
	DefaultRobot       string // robot of a call that names none
	EnableThinking     bool   // let Qwen models think before they answer
	ReasoningEffort    string // low, medium, high (gpt-oss)
	HistoryMaxMessages int    // newest messages kept in the prompt; 0: all

	// Sampling. nil: the model file's value, else the protocol's default.
	Temperature *float64
	TopP        *float64
	TopK        *int
	MinP        *float64
	Seed        uint64 // base of every sampled candidate's seed

	// Placement and engine.
	Device       string   // auto, cpu, or names separated by commas
	GPULayers    int      // layers on the GPU; -1: all
	TensorSplit  []string // share of each device, as numbers
	Contexts     int      // that share the work
	Reproducible bool
	PrefixCache  string // on or off
	CacheRAM     int    // host memory for evicted prefixes, in MB; 0: none
	Parallel     int    // sequences decoded together in each; 0: decided at load
	DraftRows    int    // tokens of a step up to which answers are guessed; -1: decided at load
	BatchSize    int    // tokens of one model step; 0: decided at load
	Threads      int    // CPU threads; 0: auto
	CPUAttention string // shared or ggml
	QueueLimit   int    // candidates waiting or running
	QueueTime    time.Duration
	FixedTokens  int // benchmarks: every answer is so many tokens; 0: off

	// HTTP.
	AgentVersion   string // in /v1/info
	Host           string
	Port           int
	TLSCert        string
	TLSKey         string
	AuthTokenFile  string
	LoadingWait    time.Duration // of requests for the model; 0: they are refused at once
	RequestTimeout time.Duration // 0: none
	DrainTimeout   time.Duration

	// Coaching. Sessions bring the addresses and keys of their coaches.
	Coaching         string        // on or off
	CoachingAllow    []string      // hosts and networks coaches may be at; none: egress's default
	CoachHuman       string        // where people coach every session; "": nowhere
	CoachHumanWhen   string        // first or failed
	CoachingWorkers  int           // requests of one session in work at once
	CoachingQueue    int           // requests of one session that wait
	CoachingSessions int           // sessions at a time
	CoachingIdle     time.Duration // unused sessions are closed after it; 0: never
	CoachingMaxSteps int           // steps of a trajectory

	// Files and logs.
	PromptLogDir string
	Pprof        string // loopback address of the profiles; "": off
	LogLevel     string
	LogFormat    string
	ConfigFile   string
}

// defaultConfig is the lowest layer: what holds when nothing is said.
func defaultConfig() Config {
	return Config{
		ModelFormat:     "auto",
		Quantization:    "auto",
		DType:           "auto",
		MaxNewTokens:    defaultMaxNewTokens,
		Agent:           agent.FullHistory,
		SummaryUnit:     unitTokens,
		OutputStyle:     "qwen_format",
		Constrain:       "on",
		ForcedTokens:    "on",
		PrefixCache:     "on",
		CPUAttention:    "shared",
		MixedOutput:     "reject",
		DefaultRobot:    "robot",
		ReasoningEffort: "low",
		Device:          "auto",
		GPULayers:       -1,
		Contexts:        1,
		DraftRows:       -1,
		QueueLimit:      defaultQueueLimit,
		AgentVersion:    release,
		Host:            "127.0.0.1",
		Port:            defaultPort,
		LoadingWait:     defaultLoadingWait,
		DrainTimeout:    defaultDrainTimeout,

		Coaching:         "on",
		CoachHumanWhen:   coaching.PeopleFirst,
		CoachingWorkers:  coaching.DefaultWorkers,
		CoachingQueue:    coaching.DefaultQueue,
		CoachingSessions: coaching.DefaultMaxSessions,
		CoachingMaxSteps: coaching.DefaultMaxSteps,

		LogLevel:  "info",
		LogFormat: "console",
	}
}
