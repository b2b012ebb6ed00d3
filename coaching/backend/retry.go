package backend

import (
	"context"
	"time"
)

// Attempt is one try of Retry.Ask, as it is reported.
type Attempt struct {
	Backend string // its name
	Try     int    // from 1
	Waited  time.Duration
	Took    time.Duration
	Answer  Answer
	Err     error // nil, a *Error, or the context's error
}

// Retry says how often and how patiently a backend is asked.
type Retry struct {
	Max       int64         // tries after the first one
	Timeout   time.Duration // of each try; 0 for none
	Sleep     func(ctx context.Context, d time.Duration) error
	Rand      func() float64 // in [0, 1)
	Now       func() time.Time
	OnAttempt func(Attempt) // nil: nobody is told
}
