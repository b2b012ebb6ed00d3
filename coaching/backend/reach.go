package backend

import (
	"context"
	"errors"
	"net/http"
	"time"

	"agentd/protocol"
)

// reachQuestion is short, and so is its answer.
var reachQuestion = Question{
	System:    "This is a test of the connection.",
	Messages:  []Message{{RoleUser, "Answer with an empty JSON object."}},
	Schema:    protocol.Raw(`{"type":"object"}`),
	MaxTokens: 32,
}

// Reach makes one short call to a backend, in the plainest form, and says why the backend could not be used. Any answer of
// the model is good, also one that is cut off or declined, and so is a backend that is busy now. This server's own model
// needs no call. The error is a *Error, or the context's once that has ended.
func Reach(ctx context.Context, b Backend, timeout time.Duration) error {
	r, ok := b.(*remote)
	if !ok {
		return nil
	}
	_, err := Retry{Timeout: timeout}.Ask(ctx, plain{r}, reachQuestion)
	var e *Error
	if errors.As(err, &e) && e.usable() {
		return nil
	}
	return err
}

// usable reports whether a failed call still shows that there is a model to be asked.
func (e *Error) usable() bool {
	switch e.Kind {
	case KindTruncated, KindDeclined, KindBusy:
		return true
	case KindRefused:
		// It was understood. Some models refuse so short a limit, for instance, that says nothing about others.
		return e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity
	default:
		return false
	}
}

// plain asks a remote backend in its last mode only, so that one question is one call.
type plain struct{ *remote }

func (p plain) Ask(ctx context.Context, q Question) (Answer, error) {
	a, err := p.try(ctx, q, ModeText)
	if err != nil {
		return Answer{}, p.settle(ctx, err)
	}
	return a, nil
}
