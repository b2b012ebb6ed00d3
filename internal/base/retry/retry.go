// Package retry has the waits between the tries of a call that failed.
package retry

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxAfter bounds the wait that a server asks for. More is a mistake.
const maxAfter = 24 * time.Hour

// Backoff is the wait after so many failures in a row, at least 1. It is first, and doubles up to most. random, from 0
// to 1, shortens it by up to half, so that callers that failed together do not return together.
func Backoff(failures int, first, most time.Duration, random float64) time.Duration {
	wait := most
	if shift := min(failures-1, 32); first <= most>>shift {
		wait = first << shift
	}
	return wait - time.Duration(random*float64(wait/2))
}

// Sleep waits, or returns the cause of the end of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// After reads the header Retry-After: the wait that an answer asks for, 0 without one. A date counts from the
// answer's own Date, if it has one, since the clocks may differ.
func After(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxAfter/time.Second) {
			return maxAfter // also for numbers that no integer holds
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxAfter)
}
