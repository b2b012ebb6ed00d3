package scheduler

import (
	"errors"
	"fmt"
	"time"

	"agentd/llama"
	"agentd/scheduler/generation"
)

var (
	// ErrClosed is returned after Engine.Close.
	ErrClosed = generation.ErrClosed
	// ErrModel wraps the cause of a failed computation. Other generations continue, and a
	// retry may succeed.
	ErrModel     = errors.New("scheduler: computation failed")
	errNoContext = errors.New("no context is left: all devices failed")
	// ErrReleased is returned when an admission has too few unused candidates.
	ErrReleased = errors.New("scheduler: not admitted")
	// ErrNoHostCache is returned for models with a sliding window or a recurrent state.
	ErrNoHostCache = errors.New("scheduler: this model's memory cannot save parts of a sequence")
)

// QueueFullError refuses an admission before any work. If Admitted and Asked do not exceed
// Limit, the reason is Config.QueueTime.
type QueueFullError struct {
	Asked, Admitted, Limit int // candidates
	// RetryAfter estimates when there is room: the number of candidates that must end first,
	// times the recent interval between two ends.
	RetryAfter time.Duration
}

func (e *QueueFullError) Error() string {
	if e.Admitted+e.Asked <= e.Limit {
		return fmt.Sprintf("scheduler: the queue is too slow for %d more candidates: %d are admitted", e.Asked, e.Admitted)
	}
	return fmt.Sprintf("scheduler: the queue is full: %d of at most %d candidates are admitted, %d more do not fit",
		e.Admitted, e.Limit, e.Asked)
}

// isLost reports whether the device failed for good.
func isLost(err error) bool { return errors.Is(err, llama.ErrLost) }
