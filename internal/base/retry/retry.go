// Package retry computes the waits between the tries of a call.
package retry

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxAfter bounds the wait in Retry-After. A larger one is taken for a mistake.
const maxAfter = 24 * time.Hour

// Backoff returns the wait after a number of failures in a row, at least 1. It begins with first, and doubles up to
// most. random, from 0 to 1, shortens it by up to half, so that callers that failed together do not retry together.
func Backoff(failures int, first, most time.Duration, random float64) time.Duration {
	wait := most
	if shift := min(failures-1, 32); first <= most>>shift {
		wait = first << shift
	}
	return wait - time.Duration(random*float64(wait/2))
}

// Sleep waits for d. If ctx ends first, it returns the cause.
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

// After returns the wait in the header Retry-After, 0 without one. A date is compared with the answer's Date header, if
// it has one, since the clocks may differ.
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
