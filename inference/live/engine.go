package live

import (
	"agentd/agent"
	"agentd/scheduler/generation"
	"agentd/scheduler/remote"
)

// admission is a place in an engine's queue.
type admission interface {
	agent.Generator
	Release()
}

// admit reserves places for all completions of a request, or refuses it with *generation.QueueFullError or
// generation.ErrClosed. using are the adapters of the request.
func (v *modelVersion) admit(completions int, using agent.Adapters) (admission, error) {
	if v.Remote != nil {
		return v.Remote.Admit(completions)
	}
	a, err := v.Engine.Admit(completions)
	if err != nil {
		return nil, err
	}
	use, _ := using.(*adapterUse)
	s := v.service
	s.mu.Lock()
	defer s.mu.Unlock()
	return &held{Admission: a, service: s, asked: use, on: v, using: use, aborts: s.pause.aborts, leave: func() {}}, nil
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

// remoteAdapters are the adapters that engines at URLs list. Such engines do not show versions.
type remoteAdapters struct{ engine *remote.Engine }

func (a remoteAdapters) Adapter(name string) (agent.Adapter, bool) {
	id, ok := a.engine.Adapter(name)
	return agent.Adapter{Name: name, ID: id}, ok
}

func (a remoteAdapters) Names() []string { return a.engine.Adapters() }
