package live

import (
	"agentd/agent"
	"agentd/scheduler"
	"agentd/scheduler/generation"
	"agentd/scheduler/remote"
)

// engine computes completions: the embedded one, or those at URLs.
type engine interface {
	// Admit reserves places for all completions of a request, or refuses it with
	// *generation.QueueFullError or generation.ErrClosed.
	Admit(completions int) (admission, error)
	// Failure is the reason why no request can be decided until the process restarts, nil while requests can be
	// decided. generation.ErrUnreachable ends by itself, and a *generation.StuckError may; other contexts can
	// work meanwhile.
	Failure() error
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

// remoteEngine asks engines at URLs.
type remoteEngine struct{ *remote.Engine }

func (e remoteEngine) Admit(n int) (admission, error) {
	a, err := e.Engine.Admit(n)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Failure ends when an engine answers again.
func (e remoteEngine) Failure() error {
	if e.Healthy() {
		return nil
	}
	return generation.ErrUnreachable
}

// remoteAdapters are the adapters that engines at URLs list. Such engines do not show versions.
type remoteAdapters struct{ engine *remote.Engine }

func (a remoteAdapters) Adapter(name string) (agent.Adapter, bool) {
	id, ok := a.engine.Adapter(name)
	return agent.Adapter{Name: name, ID: id}, ok
}

func (a remoteAdapters) Names() []string { return a.engine.Adapters() }
