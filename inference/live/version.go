package live

import (
	"context"
	"errors"
	"fmt"

	"agentd/agent"
	"agentd/inference/load"
	"agentd/internal/budget"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// modelVersion is one loaded model and the requests that use it.
type modelVersion struct {
	*load.Model
	service    *Service
	adapters   *adapters // nil: the engines are on other machines
	queueLimit int
	latency    *latency

	users   int // guarded by Service.mu, like retired
	retired bool
	idle    chan struct{} // closed when retired and without users
}

// openVersion loads a model and its adapters for a service. Errors name the file or the field of cfg and what to change.
func openVersion(ctx context.Context, service *Service, cfg load.Config) (*modelVersion, error) {
	m, err := load.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	v := &modelVersion{Model: m, service: service, queueLimit: cfg.Scheduler.QueueLimit, latency: newLatency(), idle: make(chan struct{})}
	if m.Remote != nil {
		return v, nil
	}
	v.adapters = newAdapters(m.Engine, m.Name(), m.AdapterBase(), cfg.Log)
	for _, a := range cfg.LoRA {
		if err := v.adapters.set(ctx, a.Name, a.Path); err != nil {
			return nil, errors.Join(fmt.Errorf("Config.LoRA: %w", err), v.Close())
		}
	}
	return v, nil
}

// Close ends running generations and frees the model. No call of Decide may run, or running ones may fail.
func (v *modelVersion) Close() error {
	err := v.Stop()
	if errors.As(err, new(*generation.StuckError)) {
		return err // a context still uses the model
	}
	v.adapters.close()
	return errors.Join(err, v.Free())
}

// decide is Service.DecideEach, or Service.Decide without begun and each, with this version.
func (v *modelVersion) decide(
	ctx context.Context, req *protocol.AgentRequest, begun func(), each func(int, *protocol.AgentOutput),
) ([]protocol.AgentOutput, error) {
	if err := budget.Add(ctx, agent.WorkBytes(req)); err != nil {
		return nil, err
	}
	using := &adapterUse{on: v}
	defer using.end()
	plan, err := v.Agent.Prepare(req, using)
	if err != nil {
		return nil, err
	}
	plan.Watch(begun, each)
	n := plan.Completions
	if n == 0 {
		return v.Agent.Run(ctx, plan, nil)
	}
	if n > v.queueLimit { // waiting would not help
		return nil, protocol.Problems{protocol.NewProblem(protocol.TypeValue,
			fmt.Sprintf("needs %d generations at once, but this server admits %d (queue_limit); ask for fewer candidates", n, v.queueLimit), "inputs")}
	}
	admission, release, err := v.admit(n, using)
	if err != nil {
		return nil, err
	}
	defer release()
	outs, err := v.Agent.Run(ctx, plan, admission)
	v.latency.count(plan.Summaries)
	for _, l := range plan.Latencies {
		v.latency.observe(ctx, &l)
	}
	return outs, err
}
