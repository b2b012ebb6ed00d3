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

// Reach makes one short call to a backend in the plainest mode and returns why it cannot be used. Any answer of the
// model counts, also a truncated or declined one, and so does a busy backend. This server's own model gets no call. The
// error is a *Error, or the context's if that ended.
func Reach(ctx context.Context, b Backend, timeout time.Duration) error {
	r, ok := b.(*remote)
	if !ok {
		return nil
	}
	_, err := Retry{Timeout: timeout}.once(ctx, plain{r}, reachQuestion)
	var e *Error
	if errors.As(err, &e) && e.usable() {
		return nil
	}
	return err
}

// usable reports whether a failed call shows that the model is there.
func (e *Error) usable() bool {
	switch e.Kind {
	case KindTruncated, KindDeclined, KindBusy:
		return true
	case KindRefused:
		// The request was understood. Some models reject such a short limit, for instance.
		return e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity
	default:
		return false
	}
}

// plain asks a remote backend in its last mode only, with one call.
type plain struct{ *remote }

func (p plain) Ask(ctx context.Context, q Question) (Answer, error) {
	return p.try(ctx, q, ModeText)
}
