package scheduler

import (
	"errors"

	"agentd/scheduler/generation"
)

var (
	// ErrClosed is returned after Engine.Close.
	ErrClosed = generation.ErrClosed
	// ErrModel is wrapped by the error of a failed computation. Other generations continue, and a retry may succeed.
	ErrModel     = errors.New("scheduler: computation failed")
	errNoContext = errors.New("no context is left: all devices failed")
	// ErrContext is wrapped where a context could not be created, mostly for lack of memory.
	ErrContext = errors.New("scheduler: a context could not be made")
	// ErrReleased is returned when an admission has too few unused candidates.
	ErrReleased = errors.New("scheduler: not admitted")
	// ErrNoHostCache is returned for models with a sliding window or a recurrent state.
	ErrNoHostCache = errors.New("scheduler: this model's memory cannot save parts of a sequence")
)
