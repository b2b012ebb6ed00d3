package backend

import (
	"context"
	"fmt"
	"sync/atomic"

	"agentd/coaching/egress"
	"agentd/protocol"
)

// New returns the backend of a definition. It contacts nobody.
func New(def protocol.CoachingBackend, o Options) (Backend, error) {
	r := &remote{name: def.Name, typ: def.Type, model: def.DefaultModel}
	switch def.Type {
	case protocol.BackendLocal:
		return newLocal(def, o)
	case protocol.BackendOpenAI, protocol.BackendOllama:
		r.try, r.modes.modes = r.tryChat, []string{ModeSchema, ModeTool, ModeText}
	case protocol.BackendAnthropic:
		r.try, r.modes.modes = r.tryClaude, []string{ModeTool, ModeText}
	default:
		return nil, fmt.Errorf("backend %q: type %q is unknown: use %s, %s, %s or %s", def.Name, def.Type,
			protocol.BackendOpenAI, protocol.BackendOllama, protocol.BackendAnthropic, protocol.BackendLocal)
	}
	var err error
	if r.wire, err = newWire(def, o); err != nil {
		return nil, fmt.Errorf("backend %q: %w", def.Name, err)
	}
	if def.Type == protocol.BackendOllama && speaksOllama(r.endpoint) {
		// Its tools are only ever offered, never required.
		r.try, r.modes.modes = r.tryOllama, []string{ModeSchema, ModeText}
	}
	return r, nil
}

// remote is a backend at an endpoint.
type remote struct {
	*wire
	modes    modeFallback
	try      func(ctx context.Context, q Question, mode string) (Answer, error) // one call; errors as Ask's
	name     string
	typ      string
	model    string
	newLimit atomic.Bool // the endpoint wants newLimitParam
}

func (r *remote) Name() string { return r.name }
func (r *remote) Type() string { return r.typ }
func (r *remote) Budget() int  { return 0 }

func (r *remote) Describe() string {
	return r.show(fmt.Sprintf("%s (%s, %s at %s)", r.name, r.typ, r.model, egress.SafeURL(r.endpoint.String())), maxDetail)
}

func (r *remote) Ask(ctx context.Context, q Question) (Answer, error) {
	a, err := r.modes.ask(ctx, func(mode string) (Answer, error) { return r.try(ctx, q, mode) })
	if err != nil {
		return Answer{}, err
	}
	if a.Model = r.show(a.Model, maxShownName); a.Model == "" {
		a.Model = r.model
	}
	return a, nil
}
