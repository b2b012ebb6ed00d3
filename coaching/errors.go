package coaching

import (
	"errors"

	"agentd/coaching/coach"
	"agentd/coaching/session"
	"agentd/coaching/store"
)

var (
	// ErrUnknown means that the run has no session, or one that is closing.
	ErrUnknown = session.ErrUnknown
	// ErrShutdown means that the service was closed.
	ErrShutdown = session.ErrShutdown
	// ErrConflict means that the run's session has another configuration. A session
	// cannot be reconfigured.
	ErrConflict = errors.New("this run has a coaching session with another configuration; close it with DELETE, then configure it again")
	// ErrClosing means that the run's session is closing.
	ErrClosing = errors.New(session.ErrSealed.Error())
)

type (
	// FullError means that a bound is reached. The same call may succeed later.
	FullError = store.FullError
	// StoreError means that the store of the sessions failed. The same call may succeed later.
	StoreError = store.Error
	// UnreachableError means that backends of a session failed a test call.
	UnreachableError = coach.UnreachableError
)
