package live

import (
	"context"
	"fmt"

	"agentd/agent"
	"agentd/internal/base/budget"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Decide is DecideEach for a caller that waits for all candidates.
func (l *Service) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	return l.DecideEach(ctx, req, nil, nil)
}

// DecideEach answers a request with one output for each candidate, in order. The whole request is admitted to the
// engine, or refused before any work. begun, if not nil, is called when the request is admitted and checked; each is
// then called once for every complete candidate, from any goroutine. If DecideEach returns an error, that is the error
// of all candidates without such a call: protocol.Problems, a *generation.QueueFullError, generation.ErrClosed, or the
// error of ctx or of its budget.
func (l *Service) DecideEach(
	ctx context.Context, req *protocol.AgentRequest, begun func(), each func(int, *protocol.AgentOutput),
) ([]protocol.AgentOutput, error) {
	v, release := l.use()
	defer release()
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
		return nil, protocol.Problems{protocol.NewProblem(protocol.TypeValue, fmt.Sprintf("needs %d generations at once, "+
			"but this server admits %d; send fewer inputs or candidates, or raise queue_limit", n, v.queueLimit), "inputs")}
	}
	admission, leave, err := v.admit(n, plan.Priority, using)
	if err != nil {
		return nil, err
	}
	defer leave()
	outs, err := v.Agent.Run(ctx, plan, admission)
	if plan.Summaries != (agent.SummaryCounts{}) {
		v.latency.count(plan.Summaries)
	}
	for i := range plan.Latencies {
		v.latency.observe(ctx, &plan.Latencies[i])
	}
	return outs, err
}

// admit reserves places for all completions of a request until release is called. The error is a
// *generation.QueueFullError or generation.ErrClosed. using has the adapters of the request. Engines at URLs ignore
// the priority.
func (v *modelVersion) admit(completions, priority int, using *adapterUse) (g agent.Generator, release func(), err error) {
	if v.Remote != nil {
		a, err := v.Remote.Admit(completions)
		if err != nil {
			return nil, nil, err
		}
		return a, a.Release, nil
	}
	a, err := v.Engine.Admit(completions, priority)
	if err != nil {
		return nil, nil, err
	}
	s := v.service
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &held{Admission: a, service: s, asked: using, on: v, using: using, aborts: s.pause.aborts, leave: func() {}}
	a.Host = h
	return h, func() {
		h.Release()
		h.leave()
	}, nil
}

// failure is Service.Failure of this version.
func (v *modelVersion) failure() error {
	switch {
	case v.Remote == nil:
		return v.Engine.Failure()
	case v.Remote.Healthy():
		return nil
	}
	return generation.ErrUnreachable
}
