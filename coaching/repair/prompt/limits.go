package prompt

import "agentd/protocol"

// DefaultBudget bounds the bytes of a prompt for a backend without a limit, and of the
// text for a person.
const DefaultBudget = 120_000

// minBudget is the smallest budget. The instructions, the clipped target step and the
// names of the tools need as much.
const minBudget = 10_000

// An invalid answer with its fault, appended for another try, gets an eighth of the
// question's length, within these bounds. The question reserves bytes for one.
const (
	minRetry = 1_500
	maxRetry = 8_000
)

// maxTokens bounds a coach's answer, including thoughts.
const maxTokens = 4096

// maxListedPoints bounds the reinjection points that a coach is offered.
const maxListedPoints = 100

// Bounds of an enumeration in the portable schema. Endpoints reject larger ones.
const (
	maxEnum      = 100
	maxEnumBytes = 8 << 10
)

// maxPortable bounds the portable schema, which some backends get as text in the prompt. Beyond
// it, and beyond a quarter of the prompt's budget, the arguments of all calls are texts.
const maxPortable = 32 << 10

// Bounds of a tool's arguments in the portable schema. Endpoints take objects within objects of
// ten levels, of which the answer is five. Beyond the bounds the arguments are a text.
const (
	maxStrictDepth   = 5
	maxStrictSchemas = 1000
)

// maxExact bounds the exact schema, which becomes a grammar. Beyond it the arguments of
// calls are any object.
const maxExact = 128 << 10

// Bounds of a person's task, whose members repeat parts of the request. Longer members
// are clipped or left out, and the list of steps begins later. The request is left out if
// the task would become too long for its reader.
const (
	maxPayloadMember  = 1 << 20
	maxPayloadSteps   = 500
	maxPayloadRequest = protocol.MaxBodyBytes - 16<<20
)

// maxPayloadDepth bounds the nesting of a member of a person's task. Readers allow 64
// levels, of which the task and its payload are two.
const maxPayloadDepth = 62
