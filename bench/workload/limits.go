package workload

import (
	"time"

	"agentd/protocol"
)

// Limits of traces. What is generated and recorded stays within what is read.
const (
	// maxAgents, maxTurns of one agent, and maxLines of all turns are more than a
	// run asks for.
	maxAgents = 1 << 16
	maxTurns  = 1 << 12
	maxLines  = 1 << 20
	// maxWords of a single text: beyond the context of any model.
	maxWords = 1 << 18
	// maxThink is the longest pause that can be asked for.
	maxThink = time.Hour

	// maxLine is the longest line in bytes: an input as large as a request may be,
	// its prompt, tokens and grammar.
	maxLine = 4 * protocol.MaxBodyBytes
	// maxBytes bounds all lines of a file together, since a trace is held in memory,
	// and maxInputs the inputs alone of one that is generated or recorded, so that
	// there is room for what rendering adds.
	maxBytes  = 4 << 30
	maxInputs = 1 << 30
	// inputSlack is what a request has around its only input, in bytes.
	inputSlack = 1 << 10

	// maxMillis bounds a duration: 100 days, which float64 holds to the nanosecond.
	maxMillis = 100 * 24 * 60 * 60 * 1000

	// heldBytes is the memory that a recorder takes for bodies on their way.
	heldBytes = 4 * protocol.MaxBodyBytes
)
