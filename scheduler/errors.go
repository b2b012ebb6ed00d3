package scheduler

import (
	"errors"
	"fmt"
	"time"

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

// QueueFullError refuses an admission; nothing was done. When Admitted and Asked do not
// exceed Limit, it was for Config.QueueTime.
type QueueFullError struct {
	Asked, Admitted, Limit int // candidates
	// RetryAfter is about when there will be room: the number of candidates that
	// must end first, times how long one took to end of late.
	RetryAfter time.Duration
}

func (e *QueueFullError) Error() string {
	if e.Admitted+e.Asked <= e.Limit {
		return fmt.Sprintf("scheduler: %d candidates are admitted, which take too long for %d more", e.Admitted, e.Asked)
	}
	return fmt.Sprintf("scheduler: the queue is full: %d candidates of at most %d are admitted, %d more do not fit",
		e.Admitted, e.Limit, e.Asked)
}

// isLost tells that a device failed for good.
func isLost(err error) bool { return errors.Is(err, llama.ErrLost) }
