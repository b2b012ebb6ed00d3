package backend

import (
	"context"
	"errors"
	"time"

	"agentd/internal/retry"
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

// Ask asks b until it answers, fails for good, asks for a longer wait than MaxRetryAfter, or no tries are left. The
// error is the *Error of the last try, or the context's if that ended.
func (r Retry) Ask(ctx context.Context, b Backend, q Question) (Answer, error) {
	var waited time.Duration
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return Answer{}, ctx.Err()
		}
		began := r.Now()
		answer, err := r.once(ctx, b, q)
		r.OnAttempt(Attempt{Try: try, Waited: waited, Took: r.Now().Sub(began), Answer: answer, Err: err})
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.Temporary() || int64(try) > r.Max || e.RetryAfter > MaxRetryAfter {
			return answer, err
		}
		waited = max(retry.Backoff(try, backoffFirst, backoffMost, r.Rand()), e.RetryAfter)
		if r.Sleep(ctx, waited) != nil && ctx.Err() != nil {
			return Answer{}, ctx.Err()
		}
	}
}

// once is one try, with its timeout.
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
