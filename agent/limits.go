package agent

import "agentd/protocol"

// Defaults. Summaries have the defaults of the first implementation.
const (
	DefaultMaxNewTokens     = 1024    // tokens of an answer
	DefaultRobot            = "robot" // the target of a call without a robot
	DefaultSummaryBudget    = 5000    // tokens of a prompt above which the history is summarized
	CharactersPerToken      = 4       // converts a summary budget to characters
	DefaultSummaryMaxTokens = 1024    // tokens of a summary
)

const (
	maxConcurrentInputs = 256     // inputs of a request that are prepared at once: the most sequences of a context
	maxPriority         = 100     // extra_keys.priority is at most this, and at least its negative
	maxChain            = 1 << 18 // tokens stored in a memory, far beyond most contexts

	// maxReturned bounds the estimated bytes of all candidates of one request: about three times
	// protocol.MaxRepeated are common. Tools may need more, since each repeats all robots.
	maxReturned = 4 * protocol.MaxRepeated

	// MaxOptions bounds the answers of a choice.
	MaxOptions = 255
	maxTail    = 256 // see tail

	// Bounds of the cache of prepared tool sets and schemas: an entry costs catalogCopies times its JSON.
	maxCatalogs     = 256
	maxCatalogBytes = 32 << 20
	catalogCopies   = 3
)

// Estimates of memory, in bytes where no other unit is given.
const (
	textCopies  = 8       // copies of an input's texts while its prompt is made
	toolBytes   = 8 << 10 // a tool without its text
	valueBytes  = 100     // a value in a tool's schema, with its part of the grammar
	entryBytes  = 700     // an empty entry of a history, or a call in one, with its part of the prompt
	ruleBytes   = 64      // an empty rule
	growthPart  = 4       // a candidate's buffers may be 1/growthPart larger than their content
	outputBytes = 2 << 10 // a candidate without its memory and its step
	answerBytes = 16      // a token of an answer
)
