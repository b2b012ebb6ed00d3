package coaching

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrUnknown means that the run has no session, or one that is closing.
	ErrUnknown = errors.New("this run has no coaching session; configure one with PUT /v1/coaching/sessions/{run_id}")
	// ErrConflict means that the run's session has another configuration, which
	// cannot be changed.
	ErrConflict = errors.New("this run has a coaching session with another configuration; close it with DELETE, then configure it anew")
	// ErrClosing means that the run's session is just being closed. It is an
	// ErrConflict.
	ErrClosing = fmt.Errorf("%w: it is closing, try again when it has closed", errClosing)
	// ErrShutdown means that the service was closed.
	ErrShutdown = errors.New("the server is shutting down; coaching sessions are closed")
)

// errClosing lets ErrClosing be an ErrConflict with a text of its own.
var errClosing error = closingError{}

type closingError struct{}

func (closingError) Error() string        { return "this run's coaching session cannot be configured" }
func (closingError) Is(target error) bool { return target == ErrConflict }

// FullError means that a bound is reached and that the same call may succeed
// later.
type FullError struct {
	What       string        // what is full, and the bound
	RetryAfter time.Duration // when it is worth trying again
}

// Error says what is full.
func (e *FullError) Error() string {
	return fmt.Sprintf("%s; try again in %s", e.What, e.RetryAfter)
}
