package llama

// #include "native/api.h"
import "C"

import "agentd/llama/internal/gguf"

// Limits that this package enforces before a value reaches native code.
const (
	// MaxSequences is the limit of sequence ids of a context (LLAMA_MAX_SEQ of llama.cpp).
	MaxSequences = C.AGD_MAX_SEQUENCES

	// MaxBatch bounds the tokens of a batch. A Context holds about 60 bytes for each.
	MaxBatch = 1 << 20

	// MaxContext bounds the cells of a context.
	MaxContext = 1 << 24

	// MaxThreads bounds a thread count, so that a typo does not stall the machine.
	MaxThreads = 1024

	// MaxText is the longest text that is tokenized at once, in bytes.
	MaxText = 1 << 28

	// MaxGrammarBytes bounds the text of a GBNF grammar.
	MaxGrammarBytes = 4 << 20

	// MaxGrammarNesting bounds nested groups in a grammar: llama.cpp parses
	// each level by recursion.
	MaxGrammarNesting = 200

	// MaxGrammarRepetition is the largest bound in {m,n}. llama.cpp refuses a
	// larger minimum and silently ignores a larger maximum.
	MaxGrammarRepetition = 2000

	// MaxGrammarRules bounds named rules, groups and repetitions: llama.cpp
	// looks for left recursion by recursion over rules.
	MaxGrammarRules = 20000

	// MaxGrammarElements bounds the elements (8 bytes each) of a grammar whose repetitions are expanded.
	MaxGrammarElements = 8 << 20

	// MaxForced is the most tokens that one Sampler.Force appends; names of tools and
	// keys are shorter. native/grammar/forced.cpp bounds their bytes.
	MaxForced = 64

	// MaxTemplateBytes and MaxTemplateNesting bound the source of a chat
	// template, which is parsed by recursion.
	MaxTemplateBytes   = gguf.MaxTemplate
	MaxTemplateNesting = 200

	// MaxVariableNesting bounds the JSON given to a template, which is converted by recursion.
	MaxVariableNesting = 200

	// maxPlaces bounds the devices in Context.Placement.
	maxPlaces = 64

	// maxErrorText bounds an error text from native code, in bytes: llama.cpp's grammar
	// errors quote the rest of the grammar.
	maxErrorText = 300

	// maxQuoted bounds a piece of a grammar in an error text, in bytes.
	maxQuoted = 40
)
