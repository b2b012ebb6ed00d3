package parse

// MaxWhy is how much of a coach's reason is kept.
const MaxWhy = 2_000

// MaxBytes bounds what is read of a coach's or person's answer and of a model's
// raw output.
const MaxBytes = 256 << 10

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

// MaxCalls bounds the calls of one decision.
const MaxCalls = 64

// maxNesting bounds the wrappers around calls: lists, robots, "function".
const maxNesting = 8
