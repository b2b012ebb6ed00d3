package check

import (
	"agentd/agent/tools"
)

// A set of tools is compiled once for all points that share it; beyond these
// bounds the tools of the remaining points count as unusable.
const (
	maxToolSets     = 64
	maxToolSetBytes = 8 << 20
	maxToolSchemas  = tools.MaxSetSubschemas // in all sets together
)

// maxProblems is how many problems of one decision are told at once.
const maxProblems = 20
