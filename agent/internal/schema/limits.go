package schema

// Limits of one grammar. What exceeds them is widened, and the check decides.
const (
	maxDigits      = 32     // on each side of a number's point: a model may repeat digits endlessly
	maxBoundDigits = 60     // of a bound: each is a level of nesting
	maxHops        = 100    // references in a chain
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

// Limits of the check.
const (
	maxExponent       = 400    // of numbers, which are expanded to that many digits; float64 ends at 308
	maxCheckSteps     = 10_000 // for one value, at about a microsecond each
	checkStepsPerByte = 4      // more of them
)
