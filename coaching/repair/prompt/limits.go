package prompt

import (
	"agentd/protocol"
)

// The work for a request is bounded by its size; what costs more than reading it
// is bounded here. Lengths of texts are counted in bytes, which are never fewer
// than characters.

// DefaultBudget is how long a prompt may be where the backend names no limit, and
// the text that a person is shown.
const DefaultBudget = 120_000

// minBudget is the shortest budget that is obeyed: the instructions, the target
// step cut short and the names of the tools need so much.
const minBudget = 10_000

// An invalid answer and what is wrong with it, appended for another try, have an
// eighth of the question's length, within these bounds. The question leaves room
// for one.
const (
	minRetry = 1_500
	maxRetry = 8_000
)

// maxTokens is how long a coach's answer may become, thoughts included.
const maxTokens = 4096

// maxListedPoints is how many reinjection points a coach is offered, those
// nearest to the target step.
const maxListedPoints = 100

// An enumeration in the portable schema; endpoints refuse larger ones.
const (
	maxEnum      = 100
	maxEnumBytes = 8 << 10
)

// maxExact bounds the exact schema: a grammar is made of it. Beyond it the
// arguments of calls are any object.
const maxExact = 128 << 10

// Members of a person's task repeat parts of the request that travels beside
// them. Beyond these bounds they are left out, or cut, and the list of steps begins
// later; the request itself is left out where the task would become too long for
// its reader.
const (
	maxPayloadMember  = 1 << 20
	maxPayloadSteps   = 500
	maxPayloadRequest = protocol.MaxBodyBytes - 16<<20
)

// maxPayloadDepth is how deep a member of a person's task may be nested: the task
// and its payload are two levels around it, and readers take 64.
const maxPayloadDepth = 62
