package backend

import (
	"context"
	"fmt"

	"agentd/coaching/egress"
	"agentd/protocol"
)

// New returns the backend of a definition. It contacts nobody.
func New(def protocol.CoachingBackend, o Options) (Backend, error) {
	var api func(*remote) tryFunc
	modes := []string{ModeSchema, ModeTool, ModeText}
	switch def.Type {
	case protocol.BackendLocal:
		return newLocal(def, o)
	case protocol.BackendOpenAI, protocol.BackendOllama:
		api = chatCompletions
	case protocol.BackendAnthropic:
		api = anthropicMessages
		modes = []string{ModeTool, ModeText}
	default:
		return nil, fmt.Errorf("backend %q: type %q is unknown: use %s, %s, %s or %s", def.Name, def.Type,
			protocol.BackendOpenAI, protocol.BackendOllama, protocol.BackendAnthropic, protocol.BackendLocal)
	}
	w, err := newWire(def, o)
	if err != nil {
		return nil, fmt.Errorf("backend %q: %w", def.Name, err)
	}
	if def.Type == protocol.BackendOllama && speaksOllama(w.endpoint) {
		api = ollamaNative
		modes = []string{ModeSchema, ModeText} // its tools are only ever offered, never required
	}
	r := &remote{wire: w, name: def.Name, typ: def.Type, model: def.DefaultModel, modes: modeFallback{modes: modes}}
	r.try = api(r)
	return r, nil
}

// tryFunc asks a question in one mode. The error is a *Error, or the context's.
type tryFunc func(ctx context.Context, q Question, mode string) (Answer, error)

// remote is a backend at an endpoint.
type remote struct {
	*wire
	modes modeFallback
	try   tryFunc
	name  string
	typ   string
	model string
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
