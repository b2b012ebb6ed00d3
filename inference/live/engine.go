package live

import (
	"agentd/agent"
	"agentd/scheduler/generation"
)

// admission is a place in an engine's queue.
type admission interface {
	agent.Generator
	Release()
}

// admit reserves places for all completions of a request, or refuses it with *generation.QueueFullError or
// generation.ErrClosed. using are the adapters of the request.
func (v *modelVersion) admit(completions int, using *adapterUse) (admission, error) {
	if v.Remote != nil {
		return v.Remote.Admit(completions)
	}
	a, err := v.Engine.Admit(completions)
	if err != nil {
		return nil, err
	}
	s := v.service
	s.mu.Lock()
	defer s.mu.Unlock()
	return &held{Admission: a, service: s, asked: using, on: v, using: using, aborts: s.pause.aborts, leave: func() {}}, nil
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
