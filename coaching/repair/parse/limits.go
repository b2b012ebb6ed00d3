package parse

// MaxWhy bounds the bytes of a coach's reason.
const MaxWhy = 2_000

// MaxBytes bounds an answer and a raw output.
const MaxBytes = 256 << 10

// Bounds of near-JSON. The library that repairs it takes cubic time on some inputs.
const (
	maxRepair         = 4 << 10
	maxRepairTotal    = 8 << 10 // for all parts of one text together
	maxRepairQuotes   = 128
	maxRepairOdd      = 8 // typographic quotes and backticks
	maxRepairBrackets = 128
)

// maxJSONStarts bounds the places of a text that are tried as the beginning of JSON.
const maxJSONStarts = 32

// MaxCalls bounds the calls of one decision.
const MaxCalls = 64

// maxNesting bounds the wrappers around calls: lists, robots, "function".
const maxNesting = 8
