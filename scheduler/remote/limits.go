package remote

import "time"

const (
	// DefaultRetries is how often completions are asked again that the engine let violate
	// the grammar.
	DefaultRetries = 2
	// MaxRetries bounds Config.Retries.
	MaxRetries = 16
	// DefaultConnections is the most connections to one URL.
	DefaultConnections = 256

	connectTimeout = 5 * time.Second
	// Bounds of an answer: text, ids and logprobs of a token, and what stands around them.
	bytesPerToken = 256
	bytesOfAnswer = 1 << 20
	// An error's text is cut for messages.
	errorText = 300

	// An engine is frozen when the time of so many requests in a row ended without a byte.
	lateRequests = 2
	// The comparison of vocabularies has so many strings, fewer when an engine returns, and so
	// many calls at a time.
	probeStrings      = 200
	probeStringsAgain = 20
	probeCalls        = 8
	tokensCompared    = 2048 // in one call
	// A string has at most so many parts: fewer and longer strings need fewer calls.
	probeParts = 60
	// relistAfter is the least time between two lists of adapters because of unknown names or
	// refused calls.
	relistAfter = time.Second
	// affinityTokens of a prompt stand for its session where none is named.
	affinityTokens = 1024

	// A replica is overloaded when it has more than overloadFactor times the requests of the
	// next one in the session's order, and more than overloadSlack in addition.
	overloadFactor = 2
	overloadSlack  = 4

	// defaultRetryAfter is for callers where a busy engine sent none.
	defaultRetryAfter = time.Second
)

// limits are times of an Engine. Tests have shorter ones.
type limits struct {
	// probeEvery is the time between two probes of an engine that gets work. Servers keep idle
	// connections for 5 s or more. probe bounds the answer. Two probes without one take an engine
	// out, 8 s after it froze.
	probeEvery, probe time.Duration
	// describe bounds an answer about the engine, or of a tokenizer. llama-server may hold a new
	// connection until an idle one of 5 s ends.
	describe time.Duration
	// verify bounds the comparison of vocabularies.
	verify time.Duration
	// prove bounds the token that an engine must generate after it made no progress.
	prove time.Duration
	// stall is the longest time between two parts of an answer that has begun.
	stall time.Duration
	// late is how long a request must have waited for its end by time to say something of the
	// engine. Clients may set shorter times than an answer takes.
	late time.Duration
	// others have so long to get ready, after the first engine did, before Start returns.
	others time.Duration
	// An engine that is out is asked again after so long, at first and at most.
	minBackoff, maxBackoff time.Duration
}

var defaultLimits = limits{
	probeEvery: 2 * time.Second, probe: 3 * time.Second, describe: 10 * time.Second, verify: 2 * time.Minute, prove: 30 * time.Second,
	stall: 8 * time.Second, late: 8 * time.Second, others: 5 * time.Second, minBackoff: 500 * time.Millisecond, maxBackoff: 5 * time.Second,
}
