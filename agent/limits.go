package agent

import "agentd/protocol"

const (
	DefaultMaxNewTokens = 1024    // the token limit of an answer
	DefaultRobot        = "robot" // the target of a call that names no robot

	// DefaultSummaryBudget is the size of a prompt in tokens beyond which its history is
	// summarized. The first implementation has the same number.
	DefaultSummaryBudget    = 5000
	CharactersPerToken      = 4    // converts a summary budget to characters
	DefaultSummaryMaxTokens = 1024 // the token limit of a summary, as in the first implementation

	maxConcurrentInputs = 256 // bounds the inputs of a request in preparation: the most sequences of a context

	// maxReturned bounds the bytes of all candidates of one request, about. Input up to
	// protocol.MaxRepeated returns some three times. Tools grow more, since each repeats all robots.
	maxReturned = 4 * protocol.MaxRepeated

	// The next numbers estimate memory. textCopies is how often
	// a text of an input is held while its prompt is made.
	textCopies  = 8
	toolBytes   = 8 << 10 // the memory of a tool beside its text, valueBytes that of a value in its schema
	valueBytes  = 100
	entryBytes  = 700 // the memory of an empty history entry or of its call, ruleBytes that of an empty rule
	ruleBytes   = 64
	growthPart  = 4       // a candidate's buffers are up to 1/growthPart larger than what is in them
	outputBytes = 2 << 10 // a candidate beside its memory and step, answerBytes a token of its answer
	answerBytes = 16

	maxPriority = 100 // the highest extra_keys.priority, and negated the lowest

	maxChain     = 1 << 18 // bounds the tokens that a memory holds, far beyond most contexts
	chainMembers = 512     // bounds the bytes of its other members

	// maxCatalogs and maxCatalogBytes bound the cache of prepared tool
	// sets and schemas: keys, and catalogCopies times their JSON.
	maxCatalogs     = 256
	maxCatalogBytes = 32 << 20
	catalogCopies   = 3
)
