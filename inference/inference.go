package inference

import (
	"context"
	"errors"
	"fmt"

	"agentd/agent"
	"agentd/internal/budget"
	"agentd/internal/timing"
	"agentd/llama"
	"agentd/protocol"
	"agentd/scheduler"
	"agentd/scheduler/generation"
)

// Service decides requests with one loaded model. Make it with Open.
type Service struct {
	models     []*llama.Model  // the same file on each group of devices
	model      *llama.Model    // the first of them
	template   *llama.Template // nil if the model has none
	weights    *weights        // nil if another machine has them
	engine     engine
	adapters   *adapters // nil: the engine is on another machine
	agent      *agent.Agent
	queueLimit int
	latency    *latency
	info       EngineInfo
}

// engine computes completions: the embedded one or one at a URL.
type engine interface {
	// Admit reserves places for all completions of a request, or refuses it with
	// *generation.QueueFullError or generation.ErrClosed.
	Admit(completions int) (admission, error)
	Failure() error
	Close() error
}

// admission is a place in an engine's queue.
type admission interface {
	agent.Generator
	Release()
}

// embedded is llama.cpp in this process.
type embedded struct{ *scheduler.Engine }

func (e embedded) Admit(completions int) (admission, error) {
	a, err := e.Engine.Admit(completions)
	if err != nil {
		return nil, err
	}
	return traced{a}, nil
}

// EngineInfo describes the loaded model and the settings that Open chose.
type EngineInfo struct {
	Path           string // "" for the embedded model
	Default        bool   // the embedded model
	Name           string // "" if the file has none
	Architecture   string
	Description    string
	Format         string // of prompts and outputs: qwen, gpt-oss, llama, template
	Parameters     uint64
	Bytes          uint64
	TrainedContext int

	Device        string            // of the layers
	Placement     []llama.Placement // of all models and contexts
	Contexts      int
	GPULayers     int // as configured; -1: all
	Threads       int
	Attention     string // on the CPU a value of Config.CPUAttention, else "device" or "gather" (see llama.SetGather)
	Variance      string // why results may depend on the load, as a clause; "": they do not
	Isolates      bool   // so each input is computed alone, see scheduler.Config.Isolate
	ContextLength int
	KVType        string
	Parallel      int
	DraftRows     int // see scheduler.Config
	BatchSize     int
	MaxNewTokens  int
	Sampling      generation.Sampling

	Agent   string        // agent.FullHistory or agent.HistorySummarized
	Summary agent.Summary // of agent.HistorySummarized
}

// Info describes the service.
func (s *Service) Info() EngineInfo { return s.info }

// Decide answers a request with one output for each candidate, in order. The whole request is
// admitted to the engine at once, or refused before any work. The error is protocol.Problems, a
// *generation.QueueFullError, generation.ErrClosed, or that of ctx or of its budget.
func (s *Service) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	if err := budget.Add(ctx, agent.WorkBytes(req)); err != nil {
		return nil, err
	}
	using, end := s.useAdapters()
	defer end()
	plan, err := s.agent.PrepareWith(req, using)
	if err != nil {
		return nil, err
	}
	n := plan.Completions()
	if n == 0 {
		return s.agent.Run(ctx, plan, nil)
	}
	if n > s.queueLimit { // waiting would not help
		return nil, protocol.Problems{protocol.NewProblem(protocol.TypeValue,
			fmt.Sprintf("needs %d generations at once, but this server admits %d (queue_limit); ask for fewer candidates", n, s.queueLimit), "inputs")}
	}
	admission, err := s.engine.Admit(n)
	if err != nil {
		return nil, err
	}
	defer admission.Release()
	outs, err := s.agent.Run(ctx, plan, admission)
	s.latency.count(plan.Summaries())
	times := timing.Of(ctx)
	for _, l := range plan.Latencies() {
		s.latency.observe(&l)
		if l.FirstToken > 0 {
			times.Generation(l.Submitted.Add(l.Queue), l.Submitted.Add(l.FirstToken))
		}
	}
	return outs, err
}

// Failure returns the reason why no request can be decided until the process restarts, nil while
// requests can be decided. generation.ErrUnreachable ends by itself, and a *generation.StuckError
// may; other contexts can work meanwhile.
func (s *Service) Failure() error { return s.engine.Failure() }

// Close ends running generations and frees the model. Call it after the last Decide has
// returned, or when running ones may fail.
func (s *Service) Close() error {
	var errs []error
	if s.engine != nil {
		err := s.engine.Close()
		if errors.As(err, new(*generation.StuckError)) {
			return err // a context still uses the model
		}
		errs = append(errs, err)
	}
	s.adapters.close()
	if s.template != nil {
		errs = append(errs, s.template.Close())
	}
	if s.weights != nil {
		errs = append(errs, s.weights.Close())
	}
	for _, m := range s.models {
		errs = append(errs, m.Free())
	}
	return errors.Join(errs...)
}
