package tools

// MaxTools and MaxParameters bound an input's tools and a tool's parameters, all rules of the grammar.
const (
	MaxTools      = 512
	MaxParameters = 256
)

// MaxToolBytes and MaxSubschemas bound a tool: its check takes quadratic time to make.
const (
	MaxToolBytes  = 1 << 20
	MaxSubschemas = 2000
)

// maxParts bounds the parts of which $ref and allOf put a tool's parameters together.
const maxParts = 100

// MaxSetSubschemas bounds the schemas of an input's tools, at up to twenty microseconds each.
const MaxSetSubschemas = 50_000

// MaxRobots and MaxRobotBytes bound the known robots, MaxRobotCopies their JSON in all tools.
const (
	MaxRobots      = 1000
	MaxRobotBytes  = 64 << 10
	MaxRobotCopies = 1 << 20
)

// maxTypeName is the longest name of a type in bytes, list[list[...]] included.
const maxTypeName = 200

// MaxDepth bounds a call's arguments: an answer nests them six levels deep, and readers take 64.
const MaxDepth = 56
