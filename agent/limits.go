package agent

import "agentd/protocol"

const (
	// DefaultMaxNewTokens is the token limit of an answer.
	DefaultMaxNewTokens = 1024
	// DefaultRobot is the target of a call that names no robot.
	DefaultRobot = "robot"

	// DefaultSummaryBudget is the size of a prompt in tokens beyond which its history is
	// summarized. The first implementation has the same number.
	DefaultSummaryBudget = 5000
	// CharactersPerToken converts a summary budget to characters.
	CharactersPerToken = 4
	// DefaultSummaryMaxTokens is the token limit of a summary, as in the first implementation.
	DefaultSummaryMaxTokens = 1024

	// maxConcurrentInputs bounds the inputs of a request in preparation: the most sequences of a context.
	maxConcurrentInputs = 256

	// maxReturned bounds the bytes of all candidates of one request, about. Input up to
	// protocol.MaxRepeated returns some three times. Tools grow more, since each repeats all robots.
	maxReturned = 4 * protocol.MaxRepeated

	// The next numbers estimate memory. textCopies is how often
	// a text of an input is held while its prompt is made.
	textCopies = 8
	// toolBytes is the memory of a tool beside its text, valueBytes that of a value in its schema.
	toolBytes  = 8 << 10
	valueBytes = 100
	// entryBytes is the memory of an empty history entry or of its call, ruleBytes that of an empty rule.
	entryBytes = 700
	ruleBytes  = 64
	// growthPart: a candidate's buffers are up to 1/growthPart larger than what is in them.
	growthPart = 4
	// outputBytes is a candidate beside its memory and step, answerBytes a token of its answer.
	outputBytes = 2 << 10
	answerBytes = 16

	// maxPriority is the highest extra_keys.priority, and negated the lowest.
	maxPriority = 100

	// maxChain bounds the tokens that a memory holds, far beyond most contexts.
	maxChain = 1 << 18
	// chainMembers bounds the bytes of its other members.
	chainMembers = 512

	// maxCatalogs and maxCatalogBytes bound the cache of prepared tool
	// sets and schemas: keys, and catalogCopies times their JSON.
	maxCatalogs     = 256
	maxCatalogBytes = 32 << 20
	catalogCopies   = 3
)
