package schema

// maxExponent bounds the exponents of numbers in schemas and values; float64 ends at 308. The
// check takes numbers for fractions of that many digits.
const maxExponent = 400

// maxDigits bounds the digits on each side of a number's point, unless its bounds need more.
// A model that repeats itself writes digits without end.
const maxDigits = 32

// maxBoundDigits is the most digits of a bound that becomes a rule; each is a level of
// nesting. The check knows bounds beyond it.
const maxBoundDigits = 60

// maxHops bounds references that lead to nothing but another one.
const maxHops = 100

// Limits of what one schema is made into. What is beyond them is widened.
const (
	maxRules       = 4000   // places of the schema with other rules than those of any value
	maxBranches    = 256    // ways in which the alternatives of one place combine
	maxParts       = 30_000 // schemas that were put together for all places
	maxRepetition  = 2000   // of {m,n}: llama.cpp takes no larger one
	maxRepeated    = 8000   // optional repetitions of all {m,n}: each is a rule
	maxStates      = 400    // of the automaton of a string
	maxToolStates  = 5000   // of all automata of one document
	maxCounted     = 2000   // rules that count the members of one object
	maxValues      = 4000   // constants of one place: package llama takes 10,000 ways in which a rule begins
	maxMultiples   = 256    // multiples within bounds that are written out
	maxNamePattern = 3      // patternProperties of one object: each combination gets rules
)

// maxCheckSteps and checkStepsPerByte bound the check of one value: how often a schema is
// applied to a value, at about a microsecond each.
const (
	maxCheckSteps     = 10_000
	checkStepsPerByte = 4
)
