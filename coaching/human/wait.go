package human

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// temporary reports whether a status is that of a proxy or a busy endpoint, not
// of the protocol.
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
	after  time.Duration // what Retry-After asks for, 0 when absent
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

// wait is how long to wait after so many failures in a row: between half and all
// of a time that doubles, so that many agents do not come back at once. An
// endpoint may ask for more, within the longest wait.
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
