// Package timing carries the times of a request's generations to its HTTP answer.
package timing

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

type key struct{}

// Timing has the earliest times of the generations of one request; zero: there are none. One goroutine
// uses it at a time.
type Timing struct{ started, first time.Time }

// With returns a context whose generations count into the Timing.
func With(ctx context.Context) (context.Context, *Timing) {
	t := new(Timing)
	return context.WithValue(ctx, key{}, t), t
}

// Generation records when the first sequence of a generation started, and when its first token was
// sampled. Without a Timing in ctx it does nothing.
func Generation(ctx context.Context, started, firstToken time.Time) {
	t, ok := ctx.Value(key{}).(*Timing)
	if !ok {
		return
	}
	if t.first.IsZero() || started.Before(t.started) {
		t.started = started
	}
	if t.first.IsZero() || firstToken.Before(t.first) {
		t.first = firstToken
	}
}

// Write sets the header Server-Timing (W3C Server Timing) of a request that began at a time. Its durations
// are in milliseconds.
func (t *Timing) Write(h http.Header, began time.Time) {
	if !t.first.IsZero() {
		millis := func(at time.Time) float64 { return float64(at.Sub(began)) / float64(time.Millisecond) }
		h.Set("Server-Timing", fmt.Sprintf("queue;dur=%.3f, ttft;dur=%.3f", millis(t.started), millis(t.first)))
	}
}
