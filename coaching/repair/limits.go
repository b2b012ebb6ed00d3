package repair

import "agentd/agent/tools"

// Bounds of the compiled sets of tools of a case. The tools of further points count as
// unusable.
const (
	maxToolSets     = 64
	maxToolSetBytes = 8 << 20
	maxToolSchemas  = tools.MaxSetSubschemas // in all sets together
)

// maxProblems bounds the reported problems of one decision.
const maxProblems = 20
