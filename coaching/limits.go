package coaching

import "time"

// Defaults of [Options].
const (
	// DefaultWorkers is how many requests of one session run at once.
	DefaultWorkers = 4
	// DefaultQueue is how many requests of one session wait for a slot. All parallel
	// branches of a run may wait.
	DefaultQueue = 64
	// DefaultMaxSessions bounds the sessions, closing ones included.
	DefaultMaxSessions = 1024
	// DefaultMaxSteps bounds the steps of a trajectory. Real tasks have far fewer.
	DefaultMaxSteps = 2000
	// DefaultMaxBytes bounds the bytes of all requests in progress or waiting, in all sessions. They take about twice
	// as much memory. Each session may use 1/sessionShare, so that one cannot block all others.
	DefaultMaxBytes = 1 << 30
)

const (
	// 1/sessionShare of the bytes of all sessions is the limit of one session.
	sessionShare = 4
	// allAnswerBytes bounds the kept responses of all sessions.
	allAnswerBytes = 256 << 20

	// modelsRetryAfter is the Retry-After while all slots for models are busy.
	modelsRetryAfter = 5 * time.Second

	// countTimeout bounds the count of sessions for the metrics.
	countTimeout = time.Second

	// minSweep and maxSweep bound the interval of the search for idle sessions.
	minSweep = time.Second
	maxSweep = time.Minute
)
