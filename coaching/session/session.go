// Package session counts what a coaching session has on one server: requests, tasks for
// people, their bytes, and the answers that it keeps.
//
// A session is open until it is sealed. Requests can't enter a sealed session, and its waits for
// people end. The last request or task that leaves releases it:
//
//	open --Seal--> sealed --the last one leaves--> released
//
// Each file uses only files after it: session.go, answers.go.
package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"agentd/coaching/store"
)

var (
	// ErrUnknown means that the run has no session.
	ErrUnknown = errors.New("this run has no coaching session; configure one with PUT /v1/coaching/sessions/{run_id}")
	// ErrSealed is the ErrUnknown of a session that is closing.
	ErrSealed = sealedError{errors.New("this run's coaching session is closing; configure it again once that is done")}
	// ErrShutdown means that the service was closed. It is the cause of the end of its contexts.
	ErrShutdown = errors.New("the server is shutting down; coaching sessions are closed")
)

type sealedError struct{ error }

func (sealedError) Unwrap() error { return ErrUnknown }

// Options are the bounds of a session.
type Options struct {
	Workers     int             // limit of requests that ask models at once
	Queue       int             // limit of requests that wait
	RetryAfter  time.Duration   // of a FullError
	Share       int64           // limit of bytes of the session's requests
	Bytes       *Budget         // of the requests of all sessions
	AnswerBytes *Budget         // of the answers that all sessions keep
	Abort       context.Context // ends when requests in progress are aborted, with ErrShutdown as its cause
	Released    func()          // called once, when the session is released
}

// Session is the part of a coaching session that is on one server. Make it with New. Its methods may be called from any
// goroutine.
type Session struct {
	Record  store.Record
	Answers Answers

	// Open ends when the session is sealed, and Abort when requests in progress are aborted, too.
	Open, Abort context.Context

	o                Options
	slots            *semaphore.Weighted
	bytes            *Budget // of its own requests
	stopOpen, cancel context.CancelFunc
	outlived         atomic.Bool
	released         chan struct{}

	mu      sync.Mutex
	sealed  bool
	callers int
	tasks   int // tasks that people have not answered yet
}

// New returns an open session.
func New(rec store.Record, o Options) *Session {
	s := &Session{
		Record: rec, Answers: Answers{shared: o.AnswerBytes},
		o: o, slots: semaphore.NewWeighted(int64(o.Workers)), bytes: NewBudget(o.Share), released: make(chan struct{}),
	}
	s.Abort, s.cancel = context.WithCancel(o.Abort)
	s.Open, s.stopOpen = context.WithCancel(s.Abort)
	return s
}

// Enter counts a caller whose request has this many bytes; Leave must be called. The error is ErrSealed
// if the session is sealed, or a *store.FullError.
func (s *Session) Enter(bytes int64) error { return s.enter(&s.callers, bytes, true) }

// Leave ends what Enter began.
func (s *Session) Leave(bytes int64) { s.leave(&s.callers, bytes) }

// EnterTask counts a task for people, which may outlive its caller, also in a sealed session; LeaveTask
// must be called. The error is a *store.FullError.
func (s *Session) EnterTask(bytes int64) error { return s.enter(&s.tasks, bytes, false) }

// LeaveTask ends what EnterTask began.
func (s *Session) LeaveTask(bytes int64) { s.leave(&s.tasks, bytes) }

func (s *Session) enter(count *int, bytes int64, mustBeOpen bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed && mustBeOpen {
		return ErrSealed
	}
	full := func(what string, after time.Duration) error { return &store.FullError{What: what, RetryAfter: after} }
	if most := s.o.Workers + s.o.Queue; *count >= most {
		return full(fmt.Sprintf("the coaching session of this run has %d requests in progress or waiting, its maximum", most), s.o.RetryAfter)
	}
	if !s.bytes.Take(bytes) {
		return full("the coaching session of this run has requests in progress or waiting that are too long together", store.RetryAfter)
	}
	if !s.o.Bytes.Take(bytes) {
		s.bytes.Release(bytes)
		return full("the coaching requests that are in progress or waiting are too long together", store.RetryAfter)
	}
	*count++
	return nil
}

func (s *Session) leave(count *int, bytes int64) {
	s.bytes.Release(bytes)
	s.o.Bytes.Release(bytes)
	s.mu.Lock()
	*count--
	s.releaseIfDone()
}

// Seal makes Enter fail and ends the waits for people. It may be called again. The channel is
// closed once the session is released.
func (s *Session) Seal() <-chan struct{} {
	s.mu.Lock()
	if s.sealed {
		s.mu.Unlock()
		return s.released
	}
	s.sealed = true
	s.stopOpen()
	s.releaseIfDone()
	return s.released
}

// releaseIfDone unlocks the session, and releases it if it is sealed and empty. That happens once, since
// no request can enter any more.
func (s *Session) releaseIfDone() {
	done := s.sealed && s.callers == 0 && s.tasks == 0
	s.mu.Unlock()
	if !done {
		return
	}
	s.cancel()
	s.Answers.clear()
	s.o.Released()
	close(s.released)
}

// Outlive seals a session that continues on other servers: the store keeps it.
func (s *Session) Outlive() {
	s.outlived.Store(true)
	s.Seal()
}

// Outlived reports whether Outlive was called.
func (s *Session) Outlived() bool { return s.outlived.Load() }

// InProgress returns the number of callers and of tasks in the session.
func (s *Session) InProgress() (callers, tasks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callers, s.tasks
}

// Within returns the caller's context, cancelled also when requests in progress are aborted.
func (s *Session) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.Abort, func() { cancel(context.Cause(s.Abort)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// Work waits for one of the slots for questions to models. rest frees it. The error is ctx's.
func (s *Session) Work(ctx context.Context) (rest func(), err error) {
	return func() { s.slots.Release(1) }, s.slots.Acquire(ctx, 1)
}
