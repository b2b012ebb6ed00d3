package repair

import (
	"agentd/agent/tools"
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

// maxWhy is how much of a coach's reason is kept.
const maxWhy = 2_000

// maxTokens is how long a coach's answer may become, thoughts included.
const maxTokens = 4096

// A set of tools is compiled once for all points that share it; beyond these
// bounds the tools of the remaining points count as unusable.
const (
	maxToolSets     = 64
	maxToolSetBytes = 8 << 20
	maxToolSchemas  = tools.MaxSetSubschemas // in all sets together
)

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

// maxAnswer bounds what is read of a coach's or person's answer and of a model's
// raw output.
const maxAnswer = 256 << 10

// The library that repairs near-JSON goes back and forth over its input, and
// takes cubic time with what it can't make sense of.
const (
	maxRepair         = 4 << 10
	maxRepairTotal    = 8 << 10 // for all parts of one text together
	maxRepairQuotes   = 128
	maxRepairOdd      = 8 // typographic quotes and backticks
	maxRepairBrackets = 128
)

// maxJSONStarts is how many places of a text are tried as the beginning of JSON.
const maxJSONStarts = 32

// One decision may be proposed at many points: at so many at most, in so many
// bytes together, and held against so many different sets of tools.
const (
	maxProposals     = 100
	maxProposalBytes = 4 << 20
	maxProposalSets  = 8
)

// maxCalls bounds the calls of one decision.
const maxCalls = 64

// maxNesting bounds the wrappers around calls: lists, robots, "function".
const maxNesting = 8

// maxProblems is how many problems of one decision are told at once.
const maxProblems = 20

// maxNames is how many known names a message lists.
const maxNames = 30

// maxQuoted is how much of somebody's text a message quotes.
const maxQuoted = 120

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
