package generation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

var (
	// ErrClosed is returned by an engine that was closed.
	ErrClosed = errors.New("the engine is closed")
	// ErrUnreachable means that no engine on another machine can be reached right now.
	ErrUnreachable = errors.New("no engine can be reached")
	// ErrFewer is wrapped by the errors of completions that Params.Distinct asked for and that
	// do not exist, or were not found within the limit of the search.
	ErrFewer = errors.New("there are fewer different completions")
	// ErrPaused is the error of a completion that a pause of the engine has interrupted.
	ErrPaused = errors.New("the server was paused before the answer was complete")
	// ErrResume is wrapped by the error of a request whose Params.Resume can't be continued.
	ErrResume = errors.New("the tokens can't be continued")
	// ErrRemote is wrapped by the error of a request that an engine at another URL can't answer.
	ErrRemote = errors.New("an engine at another URL can't do this")
	// ErrGrammar is wrapped by the error of a grammar that cannot be used or admits no token.
	ErrGrammar = errors.New("the output grammar can't be used")
)

// QueueFullError refuses an admission. It is returned before any work was done. When Admitted
// and Asked do not exceed Limit, the wait would have been too long.
type QueueFullError struct {
	Asked, Admitted, Limit int // candidates
	// MadeWay: it was admitted, and then lost its places to a request of higher priority.
	MadeWay bool
	// RetryAfter estimates when the queue has space: the number of candidates that must end
	// first, times how long recent candidates took to end.
	RetryAfter time.Duration
}

func (e *QueueFullError) Error() string {
	switch {
	case e.MadeWay:
		return fmt.Sprintf("the queue is full: %d waiting candidates made way for a request of higher priority", e.Asked)
	case e.Admitted+e.Asked <= e.Limit:
		return fmt.Sprintf("the queue is too slow: %d candidates are admitted, and %d more would wait too long", e.Admitted, e.Asked)
	}
	return fmt.Sprintf("the queue is full: %d of at most %d candidates are admitted, %d more do not fit", e.Admitted, e.Limit, e.Asked)
}

// BusyError is returned by an engine on another machine that takes no work for now. The
// request may be sent again.
type BusyError struct {
	Reason     string // a clause for a message
	RetryAfter time.Duration
}

func (e *BusyError) Error() string { return e.Reason }

// LateError is returned when the time of a request ends before an engine on another machine
// answered. It is a context.DeadlineExceeded.
type LateError struct {
	Engine string // its URL
}

func (e *LateError) Error() string { return "engine " + e.Engine + " had not answered" }

// Unwrap makes it a deadline that passed.
func (e *LateError) Unwrap() error { return context.DeadlineExceeded }

// OverflowError is returned for a prompt that can never fit the context.
type OverflowError struct {
	Prompt int // tokens
	MaxNew int // token limit of a completion
	Limit  int // tokens that the context holds
	// AtLeast is set when Prompt is a lower bound, because counting would take too long.
	AtLeast bool
}

func (e OverflowError) Error() string {
	return fmt.Sprintf("the prompt has %s tokens; with %d for the answer that is more than the context's %d",
		e.Count(), e.MaxNew, e.Limit)
}

// Count returns the number of prompt tokens for messages.
func (e OverflowError) Count() string {
	if e.AtLeast {
		return fmt.Sprintf("at least %d", e.Prompt)
	}
	return strconv.Itoa(e.Prompt)
}

// StuckError means that steps of the embedded engine do not end. They may still.
type StuckError struct {
	Contexts []int  // that serve
	Loading  string // the device of weights that are being loaded and do not serve; "": none
}

// Names are the contexts, as "context 0, context 2", or "first step on CUDA0".
func (e *StuckError) Names() string {
	if e.Loading != "" {
		return "first step on " + e.Loading
	}
	names := make([]string, len(e.Contexts))
	for i, n := range e.Contexts {
		names[i] = fmt.Sprintf("context %d", n)
	}
	return strings.Join(names, ", ")
}

func (e *StuckError) Error() string {
	return "a step does not end: " + e.Names() + "; a thread or the device hangs"
}
