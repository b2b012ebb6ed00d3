package load

import (
	"cmp"
	"errors"

	"agentd/agent"
	"agentd/llama"
	"agentd/scheduler"
	"agentd/scheduler/generation"
	"agentd/scheduler/remote"
)

// Model is a loaded model with its agent and its engine. Make it with Open.
type Model struct {
	Info    EngineInfo
	Llama   *llama.Model // on the first group of devices; with engines at URLs, the vocabulary only
	Weights *Weights     // nil with engines at URLs
	Agent   *agent.Agent
	// Engine is the embedded engine, Remote that of engines at URLs. One of them is nil; after OpenPrompts, both are.
	Engine *scheduler.Engine
	Remote *remote.Engine

	copies   []*llama.Model  // Llama, and the same file on each further group of devices
	template *llama.Template // nil if the model has none
}

// EngineInfo describes a loaded model, and the settings that are used.
type EngineInfo struct {
	llama.ModelInfo
	Path    string // "" for the embedded model
	Default bool   // it is the embedded model
	Format  string // of prompts and answers: qwen, gpt-oss, llama, template

	CallForm      string            // the form of the model's calls: native, bare, fenced, named
	Device        string            // the devices that compute the layers
	Placement     []llama.Placement // memory of all models and contexts
	Contexts      int
	GPULayers     int // as configured; -1: all
	Threads       int
	Attention     string // a value of Config.CPUAttention, or "device" with a GPU
	Variance      string // the reason why results may depend on the load, as a clause; "": they do not
	Isolates      bool   // each input is computed alone, see scheduler.Config.Isolate
	ContextLength int
	KVType        string
	Parallel      int
	DraftRows     int // see scheduler.Config
	BatchSize     int
	MaxNewTokens  int
	Sampling      generation.Sampling

	Agent   string        // agent.FullHistory or agent.HistorySummarized
	Summary agent.Summary // for agent.HistorySummarized
}

// Window returns the most tokens of a prompt with its answer: the size of the context, at most the trained
// context. The KV cache may be larger, since sequences share it.
func (m *Model) Window() int {
	return min(m.Info.ContextLength, cmp.Or(m.Info.ContextTrain, m.Info.ContextLength))
}

// Name returns the model's name for clients of OpenAI's API and for traces.
func (m *Model) Name() string { return cmp.Or(m.Info.Name, m.Info.Architecture) }

// Stop ends running generations. After a *generation.StuckError a context still uses the model, so that
// Free must not be called.
func (m *Model) Stop() error {
	switch {
	case m.Engine != nil:
		return m.Engine.Close()
	case m.Remote != nil:
		m.Remote.Close()
	}
	return nil
}

// Free frees the model after Stop.
func (m *Model) Free() error {
	var errs []error
	if m.template != nil {
		errs = append(errs, m.template.Close())
	}
	if m.Weights != nil {
		errs = append(errs, m.Weights.Close())
	}
	for _, c := range m.copies {
		errs = append(errs, c.Free())
	}
	return errors.Join(errs...)
}

// Close is Stop and Free.
func (m *Model) Close() error {
	err := m.Stop()
	if errors.As(err, new(*generation.StuckError)) {
		return err
	}
	return errors.Join(err, m.Free())
}
