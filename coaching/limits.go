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
)

// DefaultMaxBytes bounds the bytes of all requests in progress or waiting, in all sessions.
// They take about twice as much memory. Each session has a share, so that one cannot
// block all others.
const (
	DefaultMaxBytes = 1 << 30
	sessionShare    = 4 // a quarter
)

const (
	// maxReachCalls bounds the concurrent test calls of one configuration.
	maxReachCalls = 8
	// maxReachTime bounds one test call. A model may have to load first, and MAGMA's
	// clients wait 6 minutes for an answer.
	maxReachTime = 5 * time.Minute
)

const (
	// modelsRetryAfter is when to try again where models are busy, maxRetryAfter where people are,
	// or where sessions or bytes have to be freed.
	modelsRetryAfter = 5 * time.Second
	maxRetryAfter    = time.Minute

	// withdrawTimeout bounds the request that withdraws a task from a person. An
	// endpoint that hangs must not hold up a closing session.
	withdrawTimeout = 5 * time.Second

	// probeInterval and probeTimeout are how often, and for how long, an unreachable
	// human endpoint is looked for.
	probeInterval = 10 * time.Second
	probeTimeout  = 5 * time.Second

	// maxUndelivered bounds the answers of people that a session keeps for callers
	// whose connection broke.
	maxUndelivered = 64

	// MaxAnswers bounds the responses that a session keeps for repeated requests.
	MaxAnswers = 256
	// MaxAnswerBytes bounds their size, and allAnswerBytes that of all sessions.
	MaxAnswerBytes = 16 << 20
	allAnswerBytes = 256 << 20

	// renewals is how often a lease is renewed within its time. Some may fail.
	renewals = 5
	// leaveTimeout bounds the end of a lease in the store. It ends by itself later.
	leaveTimeout = 5 * time.Second
	// countTimeout bounds the count of sessions for the metrics.
	countTimeout = time.Second

	// minSweep and maxSweep bound the interval of the search for idle sessions.
	minSweep = time.Second
	maxSweep = time.Minute

	// maxLogBlock bounds the bytes of one quoted text in a log, and maxLog the log.
	// Prompts may hold a whole trajectory.
	maxLogBlock = 64 << 10
	maxLog      = 512 << 10

	// maxLogSpan bounds the bytes of a text quoted within a line of a log, and
	// maxLogPoints the reinjection points that the log names.
	maxLogSpan   = 2000
	maxLogPoints = 20

	// maxLogID bounds the bytes of clients' ids in the server's own log.
	maxLogID = 200

	// maxReason bounds the bytes of a reason, and maxClipped the note that clip adds.
	maxReason  = 2000
	maxClipped = 50
)
