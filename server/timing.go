package server

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Timing is when things happened to a request, from its headers on. A Decider finds it in its context (see [TimingOf]) and fills in what it
// knows; the client reads it in the header Server-Timing (W3C Server Timing).
type Timing struct {
	began time.Time

	mu           sync.Mutex
	queue, first time.Duration
	known        bool
}

type timingKey struct{}

// TimingOf is the Timing of the request that ctx belongs to; one that nobody
// reads when there is none.
func TimingOf(ctx context.Context) *Timing {
	if t, ok := ctx.Value(timingKey{}).(*Timing); ok {
		return t
	}
	return &Timing{}
}

func withTiming(ctx context.Context, began time.Time) (context.Context, *Timing) {
	t := &Timing{began: began}
	return context.WithValue(ctx, timingKey{}, t), t
}

// Generation notes one generation: when its first sequence started and when its
// first token was there. Of several the earliest count.
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

// write sets the header: durations in milliseconds.
func (t *Timing) write(h http.Header) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known {
		h.Set("Server-Timing", "queue;dur="+millis(t.queue)+", ttft;dur="+millis(t.first))
	}
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 3, 64)
}
