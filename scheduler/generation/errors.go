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
	// ErrClosed is the error of a closed engine.
	ErrClosed = errors.New("the engine is closed")
	// ErrUnreachable is the error while no engine at a URL can be reached.
	ErrUnreachable = errors.New("no engine can be reached")
	// ErrFewer is wrapped by the errors of completions that Params.Distinct asked for, if the search found
	// fewer within its limit.
	ErrFewer = errors.New("there are fewer different completions")
	// ErrPaused is the error of a completion that a pause interrupted.
	ErrPaused = errors.New("the server was paused before the answer was complete")
	// ErrResume is wrapped where Params.Resume can't be continued.
	ErrResume = errors.New("the tokens can't be continued")
	// ErrRemote is wrapped where an engine at a URL does not support a request.
	ErrRemote = errors.New("an engine at another URL can't do this")
	// ErrGrammar is wrapped where a grammar is invalid or admits no token.
	ErrGrammar = errors.New("the output grammar can't be used")
)

// QueueFullError refuses an admission, before any work was done.
type QueueFullError struct {
	Asked, Admitted, Limit int // candidates
	// Late: they fit, but would probably wait too long.
	Late bool
	// MadeWay: the request was admitted, and then lost its places to one of higher priority.
	MadeWay bool
	// RetryAfter estimates when the queue has space: the number of candidates that must end first, times
	// the recent mean time between two ends.
	RetryAfter time.Duration
}

func (e *QueueFullError) Error() string {
	switch {
	case e.MadeWay:
		return fmt.Sprintf("the queue is full: %d waiting candidates made way for a request of higher priority", e.Asked)
	case e.Late:
		return fmt.Sprintf("the queue is too slow (queue_time): %d candidates are admitted, and %d more would wait too long", e.Admitted, e.Asked)
	}
	return fmt.Sprintf("the queue is full (queue_limit): %d of at most %d candidates are admitted, %d more do not fit", e.Admitted, e.Limit, e.Asked)
}

// BusyError is returned where an engine at a URL takes no work for now. The request may be sent again.
type BusyError struct {
	Reason     string // a clause for a message
	RetryAfter time.Duration
}

func (e *BusyError) Error() string { return e.Reason }

// LateError is returned if a request's deadline passes before an engine at a URL has
// answered. errors.Is reports that it is context.DeadlineExceeded.
type LateError struct {
	Engine string // its URL
}

func (e *LateError) Error() string { return "engine " + e.Engine + " had not answered" }

// Unwrap returns context.DeadlineExceeded.
func (e *LateError) Unwrap() error { return context.DeadlineExceeded }

// OverflowError is returned for a prompt that does not fit the context together with MaxNew tokens.
type OverflowError struct {
	Prompt int // tokens
	MaxNew int // token limit of a completion
	Limit  int // tokens that the context holds
	// AtLeast: Prompt is a lower bound, since to count all tokens would take too long.
	AtLeast bool
}

func (e OverflowError) Error() string {
	return fmt.Sprintf("the prompt has %s tokens; with %d for the answer that is more than the context's %d",
		e.Count(), e.MaxNew, e.Limit)
}

// Count returns the number of prompt tokens as a text for messages.
func (e OverflowError) Count() string {
	if e.AtLeast {
		return fmt.Sprintf("at least %d", e.Prompt)
	}
	return strconv.Itoa(e.Prompt)
}

// StuckError means that steps of the embedded engine do not end, or have not yet.
type StuckError struct {
	Contexts []int  // indexes of stuck contexts that serve
	Loading  string // the device of stuck weights that are being loaded; "" for none
}

// Names lists what is stuck: "context 0, context 2", or "first step on CUDA0".
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
