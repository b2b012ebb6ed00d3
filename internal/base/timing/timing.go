// Package timing passes the times of a request's generations to its HTTP answer.
package timing

import (
	"context"
	"time"
)

type key struct{}

// Timing has the times of the first generation of a request: when its first sequence started, and when its
// first token was sampled. They are zero without a generation. One goroutine may use it at a time.
type Timing struct{ Started, First time.Time }

// With returns a context with a new Timing, which generations set.
func With(ctx context.Context) (context.Context, *Timing) {
	t := new(Timing)
	return context.WithValue(ctx, key{}, t), t
}

// Of returns the Timing of a context, or without one a new Timing.
func Of(ctx context.Context) *Timing {
	if t, ok := ctx.Value(key{}).(*Timing); ok {
		return t
	}
	return new(Timing)
}
