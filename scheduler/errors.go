package scheduler

import (
	"errors"

	"agentd/llama"
	"agentd/scheduler/generation"
)

var (
	// ErrClosed says that the engine was closed; nothing more is generated.
	ErrClosed = generation.ErrClosed
	// ErrModel says that the computation failed, or its context was lost. It wraps the
	// cause. Other generations go on, and trying again may succeed.
	ErrModel     = errors.New("scheduler: the model's computation failed")
	errNoContext = errors.New("no context is left: all devices failed")
	// ErrReleased says that the ticket has no candidates left for this generation.
	ErrReleased = errors.New("scheduler: not admitted by this ticket")
	// ErrNoHostCache: cells of this model can't be kept in host memory, since it has a
	// sliding window or a recurrent state.
	ErrNoHostCache = errors.New("scheduler: the memory of this model can't be kept in parts")
)

// QueueFullError refuses an admission.
type QueueFullError = generation.QueueFullError

// isLost tells that a device failed for good.
func isLost(err error) bool { return errors.Is(err, llama.ErrLost) }
