package human

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// temporary reports whether a status comes from a proxy or a busy endpoint, not from the
// protocol.
func temporary(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
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

// retryAfter reads the header in its usual form, seconds.
func retryAfter(res *http.Response) time.Duration {
	s, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(s) * time.Second
}

// wait is the backoff after a number of failures in a row. It doubles each time. Random
// jitter shortens it by up to half, so that many agents do not return at once. An
// endpoint may ask for more, up to the longest wait.
func (c *Coach) wait(failures int, err error) time.Duration {
	full := c.opts.MaxBackoff // also when the doubled time is too large for a Duration
	if d := c.opts.Backoff << (failures - 1); d > 0 && d < full {
		full = d
	}
	wait := full/2 + time.Duration(c.opts.Rand()*float64(full/2))
	var busy *busyError
	if errors.As(err, &busy) {
		wait = max(wait, min(busy.after, c.opts.MaxBackoff))
	}
	return wait
}
