package inference

import (
	"context"
	"errors"
	"fmt"

	"agentd/agent"
	"agentd/llama"
	"agentd/protocol"
	"agentd/scheduler"
	"agentd/server"
)

// Service decides requests with one loaded model. Make it with Open.
type Service struct {
	models     []*llama.Model  // the same file on each group of devices
	model      *llama.Model    // the first of them
	template   *llama.Template // nil when the model has none
	engine     *scheduler.Engine
	agent      *agent.Agent
	tokenizer  *tokenizer
	queueLimit int
	latency    *latency
	facts      Facts
}

var (
	_ server.Decider = (*Service)(nil)
	_ server.Failing = (*Service)(nil)
)

// Facts is what was loaded and how the open choices were decided.
type Facts struct {
	Path           string
	Default        bool   // the embedded model: no other was named
	Name           string // "" when the file has none
	Architecture   string
	Description    string
	Format         string // of prompts and outputs: qwen, gpt-oss, llama, template
	Parameters     uint64
	Bytes          uint64
	TrainedContext int

	Device        string // where the layers are
	Contexts      int
	GPULayers     int // asked for; -1: all
	Threads       int
	Attention     string // on the CPU "shared" (see llama.SetSharedAttention) or "ggml", else "device"
	ContextLength int
	KVType        string
	Parallel      int
	DraftRows     int // scheduler.Config's
	BatchSize     int
	Sampling      agent.Sampling

	Agent   string        // agent.FullHistory or agent.HistorySummarized
	Summary agent.Summary // of the latter: what it summarizes by
}

// Facts describes the service.
func (s *Service) Facts() Facts { return s.facts }

// Decide answers a request: one output for each candidate, in order. The whole
// request is admitted to the engine at once or refused before any work.
func (s *Service) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	plan, err := s.agent.Prepare(req)
	if err != nil {
		return nil, err
	}
	g := s.generator(nil)
	if n := plan.Candidates(); n > 0 {
		if n > s.queueLimit { // waiting would not help
			return nil, protocol.Problems{protocol.NewProblem(protocol.TypeValue,
				fmt.Sprintf("needs %d generations at once, but --queue-limit is %d; ask for fewer candidates", n, s.queueLimit), "inputs")}
		}
		if g.ticket, err = s.engine.Admit(n); err != nil {
			return nil, refusal(err)
		}
		defer g.ticket.Release()
	}
	outs, err := s.agent.Run(ctx, plan, g)
	if errors.Is(err, agent.ErrClosed) {
		return nil, &server.Error{Code: server.CodeDraining, Err: err}
	}
	return outs, err
}

// generator is what a request with an admission generates with.
func (s *Service) generator(ticket *scheduler.Admission) *generator {
	return &generator{
		tokenizer: s.tokenizer, vocab: s.model.Vocab(), ticket: ticket,
		trained: s.facts.TrainedContext, cells: s.facts.ContextLength, latency: s.latency,
	}
}

// refusal says why the engine takes no work.
func refusal(err error) error {
	var full *scheduler.QueueFullError
	switch {
	case errors.As(err, &full):
		return &server.Error{Code: server.CodeBusy, RetryAfter: full.RetryAfter}
	case errors.Is(err, scheduler.ErrClosed):
		return &server.Error{Code: server.CodeDraining, Err: err}
	}
	return err
}

// Failure says why nothing can be decided any more until the process is started
// again, nil while something can.
func (s *Service) Failure() error { return s.engine.Failure() }

// Close ends running generations and frees the model. Call it when no Decide
// is running any more, or when those that are may fail.
func (s *Service) Close() error {
	var errs []error
	if s.engine != nil {
		errs = append(errs, s.engine.Close())
	}
	if s.template != nil {
		errs = append(errs, s.template.Close())
	}
	for _, m := range s.models {
		errs = append(errs, m.Free())
	}
	return errors.Join(errs...)
}
