package workload

import "agentd/protocol"

// Limits of traces.
const (
	maxAgents = 1 << 16
	maxTurns  = 1 << 12 // of one agent
	maxLines  = 1 << 20 // turns of all agents

	// maxInputs bounds all inputs together in bytes, since a trace is held in memory.
	maxInputs = 1 << 30
	// inputSlack is the size of a request around its only input, in bytes.
	inputSlack = 1 << 10
)
