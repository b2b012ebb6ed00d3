package backend

import (
	"context"
	"errors"
	"net/http"
	"time"

	"agentd/internal/base/retry"
	"agentd/protocol"
)

// Attempt is one try of Retry.Ask, as reported to OnAttempt.
type Attempt struct {
	Try    int           // from 1
	Waited time.Duration // before this try
	Took   time.Duration
	Answer Answer
	Err    error // nil, a *Error, or the context's error
}

// Retry is a policy for repeated tries.
type Retry struct {
	Max       int64                                            // tries after the first one
	Timeout   time.Duration                                    // of each try; 0 for none
	Sleep     func(ctx context.Context, d time.Duration) error // waits or returns an error
	Rand      func() float64                                   // in [0, 1)
	Now       func() time.Time
	OnAttempt func(Attempt)
}

// Ask asks b until it answers, fails permanently, asks for a wait above MaxRetryAfter, or no tries are left. The error
// is the *Error of the last try, or the context's if that ended.
func (r Retry) Ask(ctx context.Context, b Backend, q Question) (Answer, error) {
	var waited time.Duration
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return Answer{}, ctx.Err()
		}
		began := r.Now()
		answer, err := r.once(ctx, b, q)
		r.OnAttempt(Attempt{Try: try, Waited: waited, Took: r.Now().Sub(began), Answer: answer, Err: err})
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.Temporary() || int64(try) > r.Max || e.RetryAfter > MaxRetryAfter {
			return answer, err
		}
		waited = max(retry.Backoff(try, backoffFirst, backoffMost, r.Rand()), e.RetryAfter)
		if r.Sleep(ctx, waited) != nil && ctx.Err() != nil {
			return Answer{}, ctx.Err()
		}
	}
}

// once makes one try, with its timeout.
func (r Retry) once(ctx context.Context, b Backend, q Question) (Answer, error) {
	trial := ctx
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		trial, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	answer, err := b.Ask(trial, q)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return Answer{}, ctx.Err()
	case trial.Err() != nil:
		return Answer{}, &Error{Kind: KindTimeout, Detail: "nothing within " + r.Timeout.String()}
	default:
		return Answer{}, err
	}
}

// reachQuestion is the question of Reach.
var reachQuestion = Question{
	System:    "This is a test of the connection.",
	Messages:  []Message{{RoleUser, "Answer with an empty JSON object."}},
	Schema:    protocol.Raw(`{"type":"object"}`),
	MaxTokens: 32,
}

// Reach makes one short call to a backend in its last mode, and returns the reason why it cannot be used. A truncated
// or declined answer and a busy backend are not errors. This server's own model is not called. The error is a *Error,
// or the context's if that ended.
func Reach(ctx context.Context, b Backend, timeout time.Duration) error {
	r, ok := b.(*remote)
	if !ok {
		return nil
	}
	_, err := Retry{Timeout: timeout}.once(ctx, plain{r}, reachQuestion)
	if e, ok := errors.AsType[*Error](err); ok && e.usable() {
		return nil
	}
	return err
}

// usable reports whether a failed call still shows that the model can be used.
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
