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

	// maxConcurrentInputs bounds the inputs of one request that are prepared at the same time.
	// It is the most sequences of a llama.cpp context.
	maxConcurrentInputs = 256

	// maxReturned bounds the bytes of all candidates of one request, about. Input up to
	// protocol.MaxRepeated is returned some three times: in the memory, the messages and the
	// prompt. Only tools and robots grow more, since each tool repeats all robots.
	maxReturned = 4 * protocol.MaxRepeated

	// The next numbers estimate memory. textCopies is how many times a text of an input is held
	// while its prompt is made: parsed, as messages and as a prompt, both also as JSON, and as
	// tokens.
	textCopies = 8
	// toolBytes is the memory of a tool beside its text, and valueBytes that of one more value in
	// its schema, with their parts of the grammar.
	toolBytes  = 8 << 10
	valueBytes = 100
	// entryBytes is the memory of an empty entry of a history, or of a call in one, with its part
	// of the prompt, and ruleBytes that of an empty rule.
	entryBytes = 700
	ruleBytes  = 64
	// growthPart: a candidate's buffers are up to 1/growthPart larger than what is in them.
	growthPart = 4
	// outputBytes is the memory of a candidate beside its memory and its step, and answerBytes
	// that of a token of its answer, which several texts repeat.
	outputBytes = 2 << 10
	answerBytes = 16

	// maxPriority is the highest extra_keys.priority, and negated the lowest.
	maxPriority = 100

	// maxChain bounds the tokens that a memory holds, far beyond most contexts.
	maxChain = 1 << 18
	// chainMembers bounds the bytes of its other members.
	chainMembers = 512

	// maxCatalogs and maxCatalogBytes bound the cache of prepared tool sets and schemas of answers:
	// keys, and catalogCopies times their JSON for texts. Grammars are several times as large as
	// keys.
	maxCatalogs     = 256
	maxCatalogBytes = 32 << 20
	catalogCopies   = 3
)
