package human

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"agentd/internal/retry"
)

// temporary reports whether a status comes from a proxy or a busy endpoint, not from the
// protocol.
func temporary(status int) bool {
	return slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, status)
}

// busyError is a temporary status.
type busyError struct {
	status int
	after  time.Duration // of Retry-After, 0 if absent
}

func (e *busyError) Error() string {
	return fmt.Sprintf("it answered %d %s", e.status, http.StatusText(e.status))
}

func isBusy(err error) bool {
	var busy *busyError
	return errors.As(err, &busy)
}

// wait is the wait after a number of failures in a row. An endpoint may ask for more, up to the longest wait.
func (c *Coach) wait(failures int, err error) time.Duration {
	wait := retry.Backoff(failures, c.opts.Backoff, c.opts.MaxBackoff, 1-c.opts.Rand())
	var busy *busyError
	if errors.As(err, &busy) {
		wait = max(wait, min(busy.after, c.opts.MaxBackoff))
	}
	return wait
}
