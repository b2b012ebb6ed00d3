package backend

import (
	"context"
	"fmt"

	"agentd/protocol"
)

// New returns the backend of a definition.
func New(def protocol.CoachingBackend, o Options) (Backend, error) {
	return nil, fmt.Errorf("backend %q: type %q is not supported", def.Name, def.Type)
}

// Ask asks b until it answers, refuses for good, or the tries are used up. The error is that of the last try.
func (r Retry) Ask(ctx context.Context, b Backend, q Question) (Answer, error) {
	return b.Ask(ctx, q)
}

// Error is one line for a person.
func (e *Error) Error() string { return e.Detail }

// Temporary reports whether asking again may help.
func (e *Error) Temporary() bool { return false }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
