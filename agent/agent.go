package agent

import (
	"errors"
	"fmt"
	"time"

	"agentd/agent/format"
)

// Constrain says whether answers are constrained by a grammar.
const (
	ConstrainOn  = "on"
	ConstrainOff = "off"
)

// Config of an Agent. Empty fields mean what is said; New refuses what is not.
type Config struct {
	// Kind is FullHistory (the default) or HistorySummarized.
	Kind string
	// Summary is for HistorySummarized.
	Summary Summary
	// Format is auto (the default), qwen, gpt-oss, llama or template, or an alias of
	// the first implementation (harmony, magma).
	Format string
	// Architecture and ChatTemplate of the model; the template may be the
	// user's. One of them must be given for auto.
	Architecture string
	ChatTemplate string
	// EnableThinking lets the model think aloud before it decides.
	EnableThinking bool
	// ReasoningEffort of gpt-oss: low (the default), medium, high.
	ReasoningEffort string
	// OutputStyle of the template format: qwen_format (the default) or json.
	OutputStyle string
	// MixedOutput: reject (the default) or tools, which keeps the calls and
	// drops the text beside them.
	MixedOutput string
	// CallsPerRobot: one (the default) makes a decision with two calls for the same
	// robot an invalid output; any allows it.
	CallsPerRobot string
	// DefaultRobot is the target of calls without one where not exactly one
	// robot is known; DefaultRobot when empty.
	DefaultRobot string
	// Constrain is on (the default) or off.
	Constrain string
	// MaxNewTokens bounds an answer; DefaultMaxNewTokens when 0.
	MaxNewTokens int
	// IgnoreEnd is for benchmarks only: every answer is exactly MaxNewTokens
	// tokens of whatever the model says, unconstrained and taken for a reply.
	IgnoreEnd bool
	// KeepRepeating lets an answer that repeats itself go on until it ends or has
	// MaxNewTokens; so does IgnoreEnd.
	KeepRepeating bool
	// HistoryMaxMessages bounds the history entries in a prompt, the newest
	// ones; 0 is all.
	HistoryMaxMessages int
	// Sampling of inputs whose inference_mode is not true; DefaultSampling
	// when zero.
	Sampling Sampling
	// Seed from which the seeds of all candidates are derived.
	Seed uint64
	// PromptLogDir, when not "", receives a file for each model exchange.
	PromptLogDir string
	// LogError is told when such a file can't be written; nil ignores it.
	LogError func(error)
	// Now is the clock of the prompt log; time.Now when nil.
	Now func() time.Time
}

// fill sets the defaults and checks the rest.
func (c *Config) fill() error {
	if c.DefaultRobot == "" {
		c.DefaultRobot = DefaultRobot
	}
	if c.MaxNewTokens == 0 {
		c.MaxNewTokens = DefaultMaxNewTokens
	}
	if c.Sampling == (Sampling{}) {
		c.Sampling = DefaultSampling
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.LogError == nil {
		c.LogError = func(error) {}
	}
	var errs []error
	bad := func(msg string, args ...any) { errs = append(errs, fmt.Errorf(msg, args...)) }
	if c.MaxNewTokens < 0 {
		bad("max_new_tokens is %d; it must be positive", c.MaxNewTokens)
	}
	if c.HistoryMaxMessages < 0 {
		bad("history_max_messages is %d; it must be positive, or 0 for all", c.HistoryMaxMessages)
	}
	switch c.Constrain {
	case "":
		c.Constrain = ConstrainOn
	case ConstrainOn, ConstrainOff:
	default:
		bad("constrain is %q; it must be %s or %s", c.Constrain, ConstrainOn, ConstrainOff)
	}
	if s := c.Sampling; s.Temperature <= 0 || s.TopP <= 0 || s.TopP > 1 || s.MinP < 0 || s.MinP > 1 || s.TopK < 0 {
		bad("sampling needs a temperature above 0, top_p in (0, 1], min_p in [0, 1] and top_k of at least 0; it is %+v", s)
	}
	errs = append(errs, c.fillKind())
	return errors.Join(errs...)
}

// Agent is an agent over one model. It may be used by any number of goroutines.
type Agent struct {
	cfg      Config
	format   format.Format
	memory   memoryStrategy
	catalogs *catalogCache
	log      *promptLog
}

// New makes an agent. The error names the settings that are wrong.
func New(cfg Config, tk ModelAPI) (*Agent, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	name, err := format.Resolve(cfg.Format, cfg.Architecture, cfg.ChatTemplate)
	if err != nil {
		return nil, err
	}
	f, err := format.New(name, format.Options{
		Architecture: cfg.Architecture, ChatTemplate: cfg.ChatTemplate, EnableThinking: cfg.EnableThinking,
		ReasoningEffort: cfg.ReasoningEffort, OutputStyle: cfg.OutputStyle, MixedOutput: cfg.MixedOutput,
		CallsPerRobot: cfg.CallsPerRobot, ModelAPI: tk,
	})
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, format: f, memory: fullHistory{}, catalogs: newCatalogCache(f, cfg.DefaultRobot)}
	if cfg.Kind == HistorySummarized {
		if a.memory, err = newHistorySummarized(a); err != nil {
			return nil, err
		}
	}
	if cfg.PromptLogDir != "" {
		if a.log, err = newPromptLog(cfg.PromptLogDir, cfg.Now, cfg.LogError); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Format is the name of the model format in use: qwen, gpt-oss, llama or template.
func (a *Agent) Format() string { return a.format.Name() }

// DetectFormat chooses the model format for an architecture and a chat template.
func DetectFormat(architecture, template string) (string, error) {
	return format.Detect(architecture, template)
}
