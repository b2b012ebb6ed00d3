package schema

// Limits of one grammar. A part that exceeds one is widened, and the check decides.
const (
	maxDigits      = 32     // on each side of a number's decimal point: a model may repeat digits endlessly
	maxBoundDigits = 60     // of a minimum or maximum: each digit is a level of nesting
	maxHops        = 100    // references in a chain
	maxRules       = 4000   // rules other than that of every value
	maxBranches    = 256    // combinations of alternatives of one rule
	maxParts       = 30_000 // schemas combined for all rules together
	maxRepetition  = 2000   // of {m,n}: llama.cpp's limit
	maxRepeated    = 8000   // optional repetitions of all {m,n}: each is a rule
	maxStates      = 400    // of the automaton of one string
	maxToolStates  = 5000   // of all automata of one document
	maxCounted     = 2000   // rules for counts of members of one object
	maxValues      = 4000   // constants of one rule: package llama accepts 10,000 beginnings of a rule
	maxMultiples   = 256    // multiples within bounds that are written out
	maxNamePattern = 3      // patternProperties of one object: each combination gets rules
)

// Limits of the check.
const (
	maxExponent       = 400    // of numbers, which are expanded to as many digits; float64 ends at 308
	maxCheckSteps     = 10_000 // for one value, at about a microsecond each
	checkStepsPerByte = 4      // added to maxCheckSteps
)
