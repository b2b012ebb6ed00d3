package scheduler

import (
	"testing"

	"agentd/llama"
	"agentd/scheduler/core"
)

// The core imports no llama.cpp, so it declares the limit again.
func TestCoreHasTheSequenceLimitOfLlama(t *testing.T) {
	if core.MaxSequences != llama.MaxSequences {
		t.Errorf("the core allows %d sequences, llama.cpp %d", core.MaxSequences, llama.MaxSequences)
	}
}
