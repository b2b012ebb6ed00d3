package tools

// Limits of tools.
const (
	MaxTools         = 512     // of one input: every token is checked against the rules of all
	MaxParameters    = 256     // of one tool, for the same reason
	MaxToolBytes     = 1 << 20 // of one tool
	MaxSubschemas    = 2000    // in one tool: to compile its check takes quadratic time
	MaxSetSubschemas = 50_000  // in all tools of an input, up to 20 µs each
	MaxRobots        = 1000    // known robots of an input with tools
	MaxRobotBytes    = 64 << 10
	MaxRobotCopies   = 1 << 20 // bytes of the robots' JSON in all tools, each of which repeats it
	MaxDepth         = 56      // of a call's arguments, which a response nests 6 levels deep: readers accept 64

	maxParts    = 100 // schemas that $ref and allOf combine at the top of a tool's parameters
	maxTypeName = 200 // bytes of a type's name, list[list[...]] included
)
