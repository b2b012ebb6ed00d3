package human

import (
	"errors"
	"fmt"

	"agentd/coaching/egress"
)

// Kind is the kind of an Error.
type Kind string

// The kinds of errors.
const (
	Unreachable Kind = "unreachable" // no connection, or it was lost for good
	Forbidden   Kind = "forbidden"   // the policy does not allow the endpoint
	Broken      Kind = "broken"      // the endpoint violates the protocol
)

// Error is why no person answered.
type Error struct {
	Kind   Kind
	Status int    // of the answer, 0 without one
	Detail string // a sentence for a person, without keys
	Err    error  // nil if the answer itself is wrong
}

// Error is the sentence.
func (e *Error) Error() string { return e.Detail }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// broken is an error about an answer of the endpoint.
func (c *Coach) broken(status int, cause error, format string, args ...any) *Error {
	return &Error{Broken, status, "the coaching endpoint " + c.shown + " " + fmt.Sprintf(format, args...), cause}
}

// final is the error of a failed exchange that a retry would not change, else nil.
func (c *Coach) final(err error) *Error {
	var refused *Error
	var forbidden *egress.ForbiddenError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &forbidden):
		return &Error{Forbidden, 0, "the coaching endpoint is not allowed: " + forbidden.Error(), err}
	case errors.Is(err, egress.ErrRedirect), errors.Is(err, egress.ErrTooLarge), errors.Is(err, egress.ErrEncoded):
		return c.broken(0, err, "cannot be used: %v", err)
	case errors.Is(err, egress.ErrClosed), egress.Untrusted(err):
		return c.unreachable(err)
	}
	return nil
}

func (c *Coach) unreachable(err error) *Error {
	return &Error{Unreachable, 0, fmt.Sprintf("the coaching endpoint %s cannot be reached: %s", c.shown, c.clean(err.Error())), err}
}
