package live

import (
	"agentd/agent"
	"agentd/scheduler/generation"
)

// admit reserves places for all completions of a request, until release is called, or refuses it with
// *generation.QueueFullError or generation.ErrClosed. using are the adapters of the request.
func (v *modelVersion) admit(completions int, using *adapterUse) (g agent.Generator, release func(), err error) {
	if v.Remote != nil {
		a, err := v.Remote.Admit(completions)
		if err != nil {
			return nil, nil, err
		}
		return a, a.Release, nil
	}
	a, err := v.Engine.Admit(completions)
	if err != nil {
		return nil, nil, err
	}
	s := v.service
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &held{Admission: a, service: s, asked: using, on: v, using: using, aborts: s.pause.aborts, leave: func() {}}
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
