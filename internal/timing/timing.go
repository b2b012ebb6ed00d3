// Package timing carries the times of a request's generations to its HTTP answer.
package timing

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Timing has the times of one request, from its headers on. The client reads them in the header
// Server-Timing (W3C Server Timing).
type Timing struct {
	began time.Time

	mu           sync.Mutex
	queue, first time.Duration
	known        bool
}

type timingKey struct{}

// Of returns the Timing in a context. Without one it returns a Timing that nobody reads.
func Of(ctx context.Context) *Timing {
	if t, ok := ctx.Value(timingKey{}).(*Timing); ok {
		return t
	}
	return &Timing{}
}

// With puts the Timing of a request that began at a time into a context.
func With(ctx context.Context, began time.Time) (context.Context, *Timing) {
	t := &Timing{began: began}
	return context.WithValue(ctx, timingKey{}, t), t
}

// Generation records when the first sequence of a generation started, and when its first token
// was sampled. Of several generations the earliest times count.
func (t *Timing) Generation(started, firstToken time.Time) {
	queue, first := started.Sub(t.began), firstToken.Sub(t.began)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known {
		t.queue, t.first, t.known = queue, first, true
		return
	}
	t.queue, t.first = min(t.queue, queue), min(t.first, first)
}

// Write sets the header. Its durations are in milliseconds.
func (t *Timing) Write(h http.Header) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known {
		h.Set("Server-Timing", "queue;dur="+millis(t.queue)+", ttft;dur="+millis(t.first))
	}
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 3, 64)
}
