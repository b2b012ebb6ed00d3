package coaching

import "time"

// Defaults of [Options].
const (
	// DefaultWorkers is how many requests of one session are in work at once: an
	// orchestrator asks for a few.
	DefaultWorkers = 4
	// DefaultQueue is how many requests of one session wait for a slot: a run's
	// parallel branches may all do.
	DefaultQueue = 64
	// DefaultMaxSessions bounds the sessions, those that are closing included.
	DefaultMaxSessions = 1024
	// DefaultMaxSteps bounds the steps of a trajectory, far above those of real
	// tasks.
	DefaultMaxSteps = 2000
)

// DefaultMaxBytes bounds what the requests of all sessions that are in work or
// waiting hold together; memory has about twice that. A session has its share of
// it, so that one cannot keep out all others.
const (
	DefaultMaxBytes = 1 << 30
	sessionShare    = 4 // a quarter
)

const (
	// maxReachCalls bounds the test calls that one configuration makes at once.
	maxReachCalls = 8
	// maxReachTime bounds one of them where its backend may take longer: a model
	// may have to be loaded first, and MAGMA's clients wait 6 minutes for an answer.
	maxReachTime = 5 * time.Minute
)

const (
	// minRetryAfter and maxRetryAfter bound the estimate in FullError.
	minRetryAfter = time.Second
	maxRetryAfter = time.Minute

	// durationSmoothing is the weight of the latest request in the average time
	// that a session's requests take.
	durationSmoothing = 0.2

	// withdrawTimeout bounds the request that withdraws a task from a person. An
	// endpoint that hangs must not hold up a closing session.
	withdrawTimeout = 5 * time.Second

	// probeInterval and probeTimeout are how often, and for how long, an unreachable
	// human endpoint is looked for.
	probeInterval = 10 * time.Second
	probeTimeout  = 5 * time.Second

	// maxUndelivered bounds the answers of people that a session keeps for
	// callers whose connection broke before they got them.
	maxUndelivered = 64

	// maxAnswers and maxAnswerBytes bound the responses that a session keeps for
	// requests that are posted again, and allAnswerBytes those of all sessions.
	maxAnswers     = 256
	maxAnswerBytes = 16 << 20
	allAnswerBytes = 256 << 20

	// minSweep and maxSweep bound the time between two looks for idle sessions.
	minSweep = time.Second
	maxSweep = time.Minute

	// maxLogBlock and maxLog bound, in bytes, one quoted text in a log and the
	// log; prompts may hold a whole trajectory.
	maxLogBlock = 64 << 10
	maxLog      = 512 << 10

	// maxLogSpan bounds, in bytes, a text quoted within a line of a log, and
	// maxLogPoints the reinjection points that it names.
	maxLogSpan   = 2000
	maxLogPoints = 20

	// maxLogID bounds, in bytes, the clients' ids in the server's own log.
	maxLogID = 200

	// maxReason bounds a reason, in bytes, and maxClipped what clip says of the rest.
	maxReason  = 2000
	maxClipped = 50
)
