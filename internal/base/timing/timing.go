// Package timing carries the times of a request's generations to its HTTP answer.
package timing

import (
	"context"
	"time"
)

type key struct{}

// Timing has the earliest times of the generations of one request: when the first sequence of one started, and when
// its first token was sampled; zero: there are none. One goroutine uses it at a time.
type Timing struct{ Started, First time.Time }

// With returns a context whose generations count into the Timing.
func With(ctx context.Context) (context.Context, *Timing) {
	t := new(Timing)
	return context.WithValue(ctx, key{}, t), t
}

// Of returns the Timing of a context, or one that nobody reads.
func Of(ctx context.Context) *Timing {
	if t, ok := ctx.Value(key{}).(*Timing); ok {
		return t
	}
	return new(Timing)
}
