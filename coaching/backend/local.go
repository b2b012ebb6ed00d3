package backend

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

// local is this server's own model as a backend.
type local struct {
	model Local
	name  string
	shown string // the model's name in the session's configuration
	keys  *quote.Redactor
}

func (l *local) Name() string { return l.name }
func (l *local) Type() string { return protocol.BackendLocal }

func (l *local) Describe() string {
	return quote.Line(fmt.Sprintf("%s (%s, this server's own model)", l.name, protocol.BackendLocal), maxDetail)
}

// reserve returns the tokens of the window for the answer: at most half, so that a prompt within Budget always fits.
func (l *local) reserve() int {
	if window := l.model.Window(); window > 0 {
		return min(DefaultMaxTokens, window/2)
	}
	return DefaultMaxTokens
}

func (l *local) Budget() int {
	return max(l.model.Window()-l.reserve(), 0) * charsPerToken
}

func (l *local) Ask(ctx context.Context, q Question) (Answer, error) {
	q.MaxTokens = min(maxTokens(q), l.reserve())
	if len(q.Exact) == 0 {
		q.Exact = q.Schema
	}
	a, err := l.model.Ask(ctx, q)
	if ctx.Err() != nil {
		return Answer{}, ctx.Err()
	}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{Kind: KindFailed, Detail: quote.Line(l.keys.Text(err.Error()), maxDetail)} // before it is cut
		}
		return Answer{}, e
	}
	if a.Model == "" {
		if a.Model = l.shown; q.Adapter != "" {
			a.Model += " with the adapter " + q.Adapter
		}
	}
	if a.Mode == "" {
		a.Mode = ModeSchema
	}
	return a, nil
}

// NoLocal is the error of type local if this server has no model that can coach.
const NoLocal = "the default model can't coach; start the server with --model, or use another type"

// LateLocal is this server's model, once it has loaded, unless it can't coach.
type LateLocal struct{ model atomic.Pointer[Local] }

// Loaded reports whether there is a model.
func (l *LateLocal) Loaded() bool { return l.model.Load() != nil }

// Set sets the model, unless it is nil.
func (l *LateLocal) Set(model Local) {
	if model != nil {
		l.model.Store(&model)
	}
}

// Ask asks the model if it has loaded.
func (l *LateLocal) Ask(ctx context.Context, q Question) (Answer, error) {
	model := l.model.Load()
	if model == nil {
		return Answer{}, &Error{Kind: KindRefused, Detail: NoLocal}
	}
	return (*model).Ask(ctx, q)
}

// Window returns the model's Window, 0 before it has loaded.
func (l *LateLocal) Window() int {
	if model := l.model.Load(); model != nil {
		return (*model).Window()
	}
	return 0
}
