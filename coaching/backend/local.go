package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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
	a.Mode = cmp.Or(a.Mode, ModeSchema)
	return a, nil
}
