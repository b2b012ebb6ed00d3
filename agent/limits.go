package agent

import "agentd/protocol"

// Defaults. Summaries have the defaults of the first implementation.
const (
	DefaultMaxNewTokens     = 1024    // tokens of an answer
	DefaultRobot            = "robot" // the target of a call that names no robot
	DefaultSummaryBudget    = 5000    // the prompt in tokens above which the history is summarized
	CharactersPerToken      = 4       // converts a summary budget to characters
	DefaultSummaryMaxTokens = 1024    // tokens of a summary
)

const (
	maxConcurrentInputs = 256     // inputs of a request in preparation: the most sequences of a context
	maxPriority         = 100     // the highest extra_keys.priority, and negated the lowest
	maxChain            = 1 << 18 // tokens in a memory, far beyond most contexts

	// maxReturned bounds the bytes of all candidates of one request, about. Input up to
	// protocol.MaxRepeated returns some three times. Tools grow more, since each repeats all robots.
	maxReturned = 4 * protocol.MaxRepeated

	// MaxOptions is the most answers of a choice.
	MaxOptions = 255
	maxTail    = 256 // bytes at the end of a prompt that may share a token with what follows

	// The cache of prepared tool sets and schemas holds keys, and catalogCopies times their JSON.
	maxCatalogs     = 256
	maxCatalogBytes = 32 << 20
	catalogCopies   = 3
)

// Estimates of memory.
const (
	textCopies  = 8       // how often a text of an input is held while its prompt is made
	toolBytes   = 8 << 10 // a tool beside its text
	valueBytes  = 100     // a value in a tool's schema, with its part of the grammar
	entryBytes  = 700     // an empty entry of a history, or a call in one, with its part of the prompt
	ruleBytes   = 64      // an empty rule
	growthPart  = 4       // a candidate's buffers are up to 1/growthPart larger than what is in them
	outputBytes = 2 << 10 // a candidate beside its memory and its step
	answerBytes = 16      // a token of an answer
)
