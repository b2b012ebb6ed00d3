package tools

// MaxTools bounds the tools of one input, MaxParameters the parameters of one
// tool: each becomes grammar rules that every sampled token is checked against.
const (
	MaxTools      = 512
	MaxParameters = 256
)

// MaxToolBytes and MaxSubschemas bound one tool: making the check of its calls
// takes time with the square of the schemas in its schema.
const (
	MaxToolBytes  = 1 << 20
	MaxSubschemas = 2000
)

// maxParts bounds the parts of which $ref and allOf put a tool's parameters together.
const maxParts = 100

// MaxSetSubschemas bounds the schemas of all tools of one input, which take up to
// twenty microseconds each.
const MaxSetSubschemas = 50_000

// MaxRobots and MaxRobotBytes bound the known robots of an input with tools,
// MaxRobotCopies their JSON in all of its tools: every tool's schema repeats them.
const (
	MaxRobots      = 1000
	MaxRobotBytes  = 64 << 10
	MaxRobotCopies = 1 << 20
)

// maxTypeName is the longest name of a type in bytes, list[list[...]] included.
const maxTypeName = 200

// MaxDepth bounds the nesting of a call's arguments. The answer nests them six
// levels deep, and its readers take 64 levels.
const MaxDepth = 56
