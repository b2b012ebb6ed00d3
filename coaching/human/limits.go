package human

import "time"

const (
	// DefaultBackoff is the wait before the task is posted again for the first time.
	DefaultBackoff = 500 * time.Millisecond

	// DefaultMaxBackoff is the longest such wait.
	DefaultMaxBackoff = 30 * time.Second
)
