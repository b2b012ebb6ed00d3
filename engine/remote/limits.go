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

	// drawsEach times N samples are drawn to find N different completions.
	drawsEach = 4

	connectTimeout = 5 * time.Second
	// Bounds of an answer: text, ids and logprobs of a token, and what stands around them.
	bytesPerToken = 256
	bytesOfAnswer = 1 << 20
	// An error's text is cut for messages.
	errorText = 300

	// A replica that could not be reached is left out for so long, at first and at most.
	minBackoff = 500 * time.Millisecond
	maxBackoff = 15 * time.Second
	// probeTimeout bounds one call that asks whether a replica is back.
	probeTimeout = 3 * time.Second
	// verifyTimeout bounds the comparison of vocabularies, with so many strings and calls
	// at a time.
	verifyTimeout = 2 * time.Minute
	probeStrings  = 1000
	probeCalls    = 8
	// relistAfter is the least time between two lists of adapters because of unknown names or
	// refused calls.
	relistAfter = time.Second
	// affinityTokens of a prompt stand for its session where none is named.
	affinityTokens = 1024

	// A replica is behind when it has more than behindFactor times the requests of the
	// next one in the session's order, and more than behindSlack in addition.
	behindFactor = 2
	behindSlack  = 4

	// defaultRetryAfter is told to callers where a busy engine told nothing.
	defaultRetryAfter = time.Second
)
