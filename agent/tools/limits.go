package tools

// Limits of tools.
const (
	MaxTools         = 512     // of one input: each becomes rules that every token is checked against
	MaxParameters    = 256     // of one tool, for the same reason
	MaxToolBytes     = 1 << 20 // of one tool
	MaxSubschemas    = 2000    // in one tool: making its check takes quadratic time
	MaxSetSubschemas = 50_000  // in all tools of an input, at up to twenty microseconds each
	MaxRobots        = 1000    // that an input with tools knows
	MaxRobotBytes    = 64 << 10
	MaxRobotCopies   = 1 << 20 // bytes of their JSON in all tools, each of which repeats it
	MaxDepth         = 56      // of a call's arguments: answers nest them six levels deep, and readers take 64

	maxParts    = 100 // of which $ref and allOf put a tool's parameters together
	maxTypeName = 200 // bytes of a type's name, list[list[...]] included
)
