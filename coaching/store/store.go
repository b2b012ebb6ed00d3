// Package store keeps coaching sessions by their run: in memory here, and in package postgres in a
// database that several servers share. It does not run anything for a session.
//
// Each file uses only files after it: lease.go, memory.go, store.go.
package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentd/protocol"
)

// State is the state of an existing session. A closed session no longer exists.
type State string

// States of a session.
const (
	Configured State = "configured"
	Closing    State = "closing"
)

// Record describes a session as it is stored.
type Record struct {
	// ID is random. It differs from that of an earlier session of the run. The ids of
	// tasks for people are derived from it.
	ID     uuid.UUID
	RunID  string
	Config *protocol.CoachingSessionConfig // never changed
	State  State
	// Unanswered are its requests in a [Shared] store without an answer. People may have tasks of these ids.
	Unanswered []string
}

// Store holds the sessions by run, and a lease for each request in progress. Its methods are
// atomic and may be called from any goroutine. An *Error means that the store itself
// failed. Records hold the headers of backends, which are often keys, so a store must not
// print them.
type Store interface {
	// Create adds a configured session. If the run has one already, it returns that
	// one, which counts as a use. If limit sessions exist (0: no limit), the error is a
	// *FullError.
	Create(ctx context.Context, rec Record, limit int) (existing *Record, err error)
	// Get returns the run's session, nil if it has none.
	Get(ctx context.Context, runID string) (*Record, error)
	// Enter adds a lease to the session with this id, which counts as a use. ok is false
	// if it is closing or gone.
	Enter(ctx context.Context, id, lease uuid.UUID) (ok bool, err error)
	// Leave ends a lease. This counts as a use of its session.
	Leave(ctx context.Context, lease uuid.UUID) error
	// MarkClosing turns the run's session from Configured to Closing and returns it,
	// perhaps without its Config. It returns nil if no session is configured. Only one of
	// several callers gets it.
	MarkClosing(ctx context.Context, runID string) (*Record, error)
	// MarkIdle does the same to all sessions without leases that were not used for a time.
	MarkIdle(ctx context.Context, unused time.Duration) ([]Record, error)
	// Delete removes the session with this id, unless it has leases. gone: it no longer exists.
	Delete(ctx context.Context, id uuid.UUID) (gone bool, err error)
	// Count returns the number of sessions.
	Count(ctx context.Context) (int, error)
}

// Shared is a Store that several servers use. It outlives them. A lease ends when its
// server has not renewed it for the lease time, by the store's clock.
type Shared interface {
	Store
	// LeaseTime returns how long a lease lasts without renewal.
	LeaseTime() time.Duration
	// Renew renews leases, removes those that ended and closing sessions that have none,
	// and returns which of these sessions are closing or gone.
	Renew(ctx context.Context, leases, sessions []uuid.UUID) (closed []uuid.UUID, err error)
	// Claim returns the kept answer to a request. If there is none, the first lease claims
	// it (claimed), until Settle or the end of the lease. Other leases get neither.
	Claim(ctx context.Context, session uuid.UUID, request string, lease uuid.UUID) (kept *Kept, claimed bool, err error)
	// Settle keeps an answer unless another one is kept, and returns the kept one. With a nil
	// answer it only gives up the claim. Without a Response the request stays unanswered, too.
	Settle(ctx context.Context, session uuid.UUID, request string, lease uuid.UUID, answer *Kept) (*Kept, error)
}

// Kept is an answer in a [Shared] store, for the same request posted again.
type Kept struct {
	Provider string // of the coach who gave it
	Response []byte // as sent
}

const (
	// MaxAnswers bounds the responses that a session keeps for repeated requests.
	MaxAnswers = 256
	// MaxAnswerBytes bounds their size.
	MaxAnswerBytes = 16 << 20
)

// Error means that the store failed. The same call may succeed later.
type Error struct{ Err error }

func (e *Error) Error() string { return "the store of coaching sessions failed: " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// RetryAfter is that of errors about people, sessions and bytes.
const RetryAfter = time.Minute

// FullError means that a bound is reached. The same call may succeed later.
type FullError struct {
	What       string        // what is full, with its bound
	RetryAfter time.Duration // when to try again
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%s; try again in %s", e.What, e.RetryAfter)
}

// TooManySessions returns the error of [Store.Create] at its limit.
func TooManySessions(limit int) *FullError {
	return &FullError{
		What:       fmt.Sprintf("there are %d coaching sessions, the maximum of this server; close those that are done", limit),
		RetryAfter: RetryAfter,
	}
}
