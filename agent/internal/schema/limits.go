package schema

// maxExponent bounds exponents in schemas and values, which the check expands; float64 ends at 308.
const maxExponent = 400

// maxDigits bounds the digits on each side of a point: a model may repeat digits endlessly.
const maxDigits = 32

// maxBoundDigits bounds the digits of a bound in the grammar: each is a level of nesting.
const maxBoundDigits = 60

const maxHops = 100

// Limits of one grammar. What exceeds them is widened.
const (
	maxRules       = 4000   // rules other than that of any value
	maxBranches    = 256    // combinations of the alternatives of one rule
	maxParts       = 30_000 // schemas combined for all rules
	maxRepetition  = 2000   // of {m,n}: llama.cpp's limit
	maxRepeated    = 8000   // optional repetitions of all {m,n}: each is a rule
	maxStates      = 400    // of the automaton of a string
	maxToolStates  = 5000   // of all automata of one document
	maxCounted     = 2000   // rules that count the members of one object
	maxValues      = 4000   // constants of one rule: package llama accepts 10,000 beginnings of a rule
	maxMultiples   = 256    // multiples within bounds that are written out
	maxNamePattern = 3      // patternProperties of one object: each combination gets rules
)

// maxCheckSteps and checkStepsPerByte bound the check of one value, at about a microsecond a step.
const (
	maxCheckSteps     = 10_000
	checkStepsPerByte = 4
)
