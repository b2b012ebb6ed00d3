package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"agentd/agent/format"
	"agentd/agent/tokens"
	"agentd/agent/tools"
	"agentd/scheduler/generation"
)

// Values of Config.Constrain: whether a grammar constrains answers.
const (
	ConstrainOn  = "on"
	ConstrainOff = "off"
)

// Config configures an Agent. New refuses invalid values.
type Config struct {
	Kind    string  // FullHistory (the default) or HistorySummarized
	Summary Summary // for HistorySummarized
	// Format is auto (the default), qwen, gpt-oss, llama, template, or an alias.
	Format string
	// Prompt holds the format's settings without ModelAPI; auto needs Architecture or ChatTemplate.
	Prompt       format.Options
	DefaultRobot string // the target of calls without one where several or no robots are known
	Constrain    string // on (the default) or off
	// ContextLength bounds the tokens of a prompt with its answer. 0: only the engine's limit applies.
	ContextLength int
	MaxNewTokens  int // tokens of an answer; DefaultMaxNewTokens when 0
	// IgnoreEnd is for benchmarks: each answer is MaxNewTokens unconstrained tokens, and counts as a reply.
	IgnoreEnd          bool
	KeepRepeating      bool                // don't end an answer that repeats itself. IgnoreEnd implies it.
	HistoryMaxMessages int                 // the newest history entries that a prompt shows; 0 is all
	Sampling           generation.Sampling // of inputs whose inference_mode is not true; DefaultSampling when zero
	Seed               uint64              // the server's part of the candidates' seeds, see seeds
	// ConsecutiveSeeds makes the seeds of an input consecutive, for engines that count up from one seed.
	ConsecutiveSeeds bool
	Sessions         bool        // set Request.Session, so that an engine places equal sessions alike
	Provider, Model  string      // names of the engine and its model in traces
	PromptLogDir     string      // an existing directory for a file of each model call; "": no files
	LogError         func(error) // receives the error of a file that can't be written; nil ignores it
	// ModelVersion returns a name of the weights that changes with them. Steps of inputs with
	// extra_keys.return have it; with AlwaysVersion, all steps. nil: steps have no model_version.
	ModelVersion  func(context.Context) (string, error)
	AlwaysVersion bool     // add the version to each model step, since the weights may change
	Return        []string // default of extra_keys.return, for clients that can't send the key
	NoLogprobs    string   // the reason why the engine can't report logprobs; "": it can
	NoMasks       string   // the reason why it can't list the tokens that could be drawn; "": it can
	NoDistinct    string   // the reason why candidates can't be distinct; "": they can
	NoScheduling  string   // the reason why extra_keys.continue and priority can't be used; "": they can
	Ask           *Ask     // the calibration of inputs with options; nil: steps have no set of options

	returns wanted // Return, parsed
}

func (c *Config) fill() error {
	c.DefaultRobot, c.MaxNewTokens = cmp.Or(c.DefaultRobot, DefaultRobot), cmp.Or(c.MaxNewTokens, DefaultMaxNewTokens)
	c.Sampling = cmp.Or(c.Sampling, DefaultSampling)
	if c.LogError == nil {
		c.LogError = func(error) {}
	}
	var errs []error
	bad := func(msg string, args ...any) { errs = append(errs, fmt.Errorf(msg, args...)) }
	if c.MaxNewTokens < 0 {
		bad("max_new_tokens is %d; it must be positive", c.MaxNewTokens)
	}
	if c.ContextLength < 0 {
		bad("the context length is %d; it must be positive, or 0 for the engine's", c.ContextLength)
	}
	if c.HistoryMaxMessages < 0 {
		bad("history_max_messages is %d; it must be positive, or 0 for all", c.HistoryMaxMessages)
	}
	if c.Constrain = cmp.Or(c.Constrain, ConstrainOn); c.Constrain != ConstrainOn && c.Constrain != ConstrainOff {
		bad("constrain is %q; it must be %s or %s", c.Constrain, ConstrainOn, ConstrainOff)
	}
	if s := c.Sampling; s.Temperature <= 0 || s.TopP <= 0 || s.TopP > 1 || s.MinP < 0 || s.MinP > 1 || s.TopK < 0 {
		bad("sampling needs a temperature above 0, top_p in (0, 1], min_p in [0, 1] and top_k of at least 0; it is %+v", s)
	}
	for _, name := range c.Return {
		switch {
		case !c.returns.add(name):
			bad("return has %q; it may have %s", name, returnNames)
		case c.returns.logprobs && c.NoLogprobs != "":
			bad("return has %q, but %s; leave it out", name, c.NoLogprobs)
		case c.returns.masks && c.NoMasks != "":
			bad("return has %q, but %s; leave it out", name, c.NoMasks)
		}
	}
	errs = append(errs, c.fillKind())
	return errors.Join(errs...)
}

// Agent makes the decisions of one model. It is safe for concurrent use.
type Agent struct {
	cfg        Config
	format     format.Format
	tokenizer  *tokens.Tokenizer
	catalogs   *catalogCache
	formatID   string // see formatOf
	log        *promptLog
	summarizer *historySummarized // shortens histories; nil: the whole history is shown
}

// New makes an agent. The error names invalid settings.
func New(cfg Config, tk ModelAPI, vocab Vocabulary) (*Agent, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	name, err := format.Resolve(cfg.Format, cfg.Prompt.Architecture, cfg.Prompt.ChatTemplate)
	if err != nil {
		return nil, err
	}
	cfg.Prompt.ModelAPI = tk
	f, err := format.New(name, cfg.Prompt)
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, format: f, tokenizer: tokens.New(vocab), catalogs: newCatalogCache(f), formatID: formatOf(&cfg, f)}
	if cfg.Kind == HistorySummarized {
		a.summarizer = &historySummarized{Agent: a}
		if cfg.Constrain == ConstrainOn {
			if a.summarizer.grammar, err = format.AnswerCatalog(f, &tools.Set{}).Grammar(); err != nil {
				return nil, fmt.Errorf("the grammar of summaries: %w", err)
			}
		}
	}
	if cfg.PromptLogDir != "" {
		a.log = &promptLog{dir: cfg.PromptLogDir, report: cfg.LogError}
	}
	return a, nil
}

// Format returns the name of the prompt format: qwen, gpt-oss, llama or template.
func (a *Agent) Format() string { return a.format.Name() }
