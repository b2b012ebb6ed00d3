package remote

import "time"

const (
	// DefaultRetries is how often completions that violate their grammar are generated again.
	DefaultRetries = 2
	// MaxRetries is the limit of Config.Retries.
	MaxRetries = 16
	// DefaultConnections is the default limit of connections to one URL.
	DefaultConnections = 256

	connectTimeout = 5 * time.Second
	// Bounds of an answer in bytes: for each token its text, id and logprobs, and for the rest.
	bytesPerToken = 256
	bytesOfAnswer = 1 << 20
	// errorText is the limit of an error's text in messages, in bytes.
	errorText = 300

	// lateRequests is after how many requests in a row that timed out without a byte an engine is frozen.
	lateRequests = 2
	// The comparison of vocabularies has probeStrings strings, probeStringsAgain when an engine returns, and
	// probeCalls calls at a time.
	probeStrings      = 200
	probeStringsAgain = 20
	probeCalls        = 8
	tokensCompared    = 2048 // tokens whose texts one call compares
	// probeParts is the limit of parts in a string: fewer, longer strings need fewer calls.
	probeParts = 60
	// relistAfter is the least time between two requests for lists of adapters, because of unknown names
	// or refused calls.
	relistAfter = time.Second
	// affinityTokens is how many tokens at the beginning of a prompt replace a missing session.
	affinityTokens = 1024

	// A replica is overloaded if it has more than overloadFactor times the requests of the next
	// one in the session's order, plus overloadSlack.
	overloadFactor = 2
	overloadSlack  = 4

	// defaultRetryAfter is BusyError.RetryAfter if an engine sent none.
	defaultRetryAfter = time.Second
)

// limits are the timeouts of an Engine. Tests set shorter ones.
type limits struct {
	// probeEvery is the time between two probes of an engine that gets work; servers keep idle
	// connections for 5 s or more. probe is the timeout of a probe. An engine gets no work after two
	// probes without an answer, 8 s after it froze.
	probeEvery, probe time.Duration
	// describe is the timeout of requests about the engine or for tokens. llama-server may let a new
	// connection wait until an idle one ends after 5 s.
	describe time.Duration
	// verify is the timeout of the comparison of vocabularies.
	verify time.Duration
	// prove is the timeout of the token that a frozen engine must generate.
	prove time.Duration
	// stall is the longest time between two parts of an answer that has begun.
	stall time.Duration
	// late is the least duration of a timed-out request that counts for lateRequests: a client's timeout may
	// be shorter than an answer takes.
	late time.Duration
	// others is how long Start waits for further engines after the first one is ready.
	others time.Duration
	// The time after which an engine that is out is tried again: at first minBackoff, at most maxBackoff.
	minBackoff, maxBackoff time.Duration
}

var defaultLimits = limits{
	probeEvery: 2 * time.Second, probe: 3 * time.Second, describe: 10 * time.Second, verify: 2 * time.Minute, prove: 30 * time.Second,
	stall: 8 * time.Second, late: 8 * time.Second, others: 5 * time.Second, minBackoff: 500 * time.Millisecond, maxBackoff: 5 * time.Second,
}
