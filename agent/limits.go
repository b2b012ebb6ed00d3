package agent

import "agentd/protocol"

const (
	// DefaultMaxNewTokens bounds an answer where the configuration does not.
	DefaultMaxNewTokens = 1024
	// DefaultRobot is the target of a call that names no robot.
	DefaultRobot = "robot"

	// DefaultSummaryBudget is the tokens of a prompt beyond which its history is
	// summarized; the first implementation's number. CharactersPerToken is about what a
	// token has, to make characters of it.
	DefaultSummaryBudget = 5000
	CharactersPerToken   = 4
	// DefaultSummaryMaxTokens bounds a summary, as in the first implementation.
	DefaultSummaryMaxTokens = 1024

	// maxConcurrentInputs bounds the inputs of one request that are in work at
	// the same time; it is the most sequences a llama.cpp context can hold.
	maxConcurrentInputs = 256

	// maxReturned is how many bytes the candidates of one request may have together, about. What protocol.MaxRepeated
	// lets through comes back some three times: in the memory, the messages and the prompt. Only tools and robots can
	// make more of little, since each tool repeats all robots.
	maxReturned = 4 * protocol.MaxRepeated

	// maxCatalogs and maxCatalogBytes bound the prepared tool sets that are
	// kept: keys, and what is made of them, of which the texts for prompts and steps are some
	// catalogCopies of the tools' JSON. Grammars are several times as large as keys.
	maxCatalogs     = 256
	maxCatalogBytes = 32 << 20
	catalogCopies   = 3
)
