package workload

// Limits of traces.
const (
	MaxAgents = 1 << 16
	MaxTurns  = 1 << 12 // of one agent

	// maxInputs bounds all inputs together in bytes, since a trace is held in memory.
	maxInputs = 1 << 30
	// inputSlack is the size of a request around its only input, in bytes.
	inputSlack = 1 << 10
)
