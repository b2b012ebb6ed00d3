package coaching

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrUnknown means that the run has no session, or one that is closing.
	ErrUnknown = errors.New("this run has no coaching session; configure one with PUT /v1/coaching/sessions/{run_id}")
	// ErrConflict means that the run's session has another configuration. A session
	// cannot be reconfigured.
	ErrConflict = errors.New("this run has a coaching session with another configuration; close it with DELETE, then configure it again")
	// ErrClosing means that the run's session is closing.
	ErrClosing = errors.New("this run's coaching session is closing; configure it again once that is done")
	// ErrShutdown means that the service was closed.
	ErrShutdown = errors.New("the server is shutting down; coaching sessions are closed")
)

// StoreError means that the store of the sessions failed. The same call may succeed later.
type StoreError struct{ Err error }

func (e *StoreError) Error() string { return "the store of coaching sessions failed: " + e.Err.Error() }

func (e *StoreError) Unwrap() error { return e.Err }

// FullError means that a bound is reached. The same call may succeed later.
type FullError struct {
	What       string        // what is full, with its bound
	RetryAfter time.Duration // when to try again
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%s; try again in %s", e.What, e.RetryAfter)
}
