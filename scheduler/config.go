package scheduler

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// Policy has the scheduling options of each context.
type Policy = core.Policy

// Config configures an Engine. Zero values select the defaults. For Policy, defaults and upper bounds come from the
// context: its batch size for BatchTokens, its sequence ids for MaxSequences, its outputs for MaxRunning and DraftRows.
// HostCells applies to each context and takes one sequence id; New returns ErrNoHostCache for models whose memory
// cannot save parts of a sequence. DraftRows has no effect on models whose memory cannot remove rejected tokens.
type Config struct {
	Policy
	// QueueLimit is the limit of admitted candidates, waiting and running together. Default:
	// 64 times MaxRunning.
	QueueLimit int
	// QueueTime refuses candidates that, at the recent rate, would probably wait longer: their answers would come too
	// late. The first MaxRunning candidates of each context do not count as waiting. 0: no limit.
	QueueTime time.Duration
	// Threads, if above 1, is the number of threads that compute a step while the processors are free. While other
	// programs use them, fewer threads compute if that is faster, see core.Threads. 0: always the context's threads.
	Threads int
	// Isolate computes each generation alone, in an empty context: always in the same steps and cells,
	// so that equal requests have equal completions. It is for kernels that are not batch-invariant, or
	// whose sums depend on the order of cells.
	Isolate bool
	// NoForcedTokens samples every token, to measure the benefit of forced tokens.
	NoForcedTokens bool
	// OnStuck, if set, is called each time a step does not end, on another goroutine.
	OnStuck func(*generation.StuckError)
}

// complete sets the defaults and checks the other values against a context.
func (c *Config) complete(of *llama.Context) error {
	batch, sequences, outputs := of.BatchSize(), of.MaxSequences(), of.MaxOutputs()
	c.NoPrefixCache = c.NoPrefixCache || c.Isolate
	if c.HostCells > 0 {
		sequences-- // saving and loading need one
	}
	var errs []error
	within := func(name string, value *int, fallback, least, most int) {
		*value = cmp.Or(*value, fallback)
		if *value < least || *value > most {
			errs = append(errs, fmt.Errorf("scheduler: %s is %d, the context allows %d to %d", name, *value, least, most))
		}
	}
	within("BatchTokens", &c.BatchTokens, batch, 1, batch)
	within("MaxSequences", &c.MaxSequences, sequences, 1, sequences)
	within("MaxRunning", &c.MaxRunning, min(outputs, sequences), 1, outputs)
	within("PrefillChunk", &c.PrefillChunk, 0, 0, c.BatchTokens)
	within("DraftRows", &c.DraftRows, 0, 0, outputs)
	within("QueueLimit", &c.QueueLimit, queueFactor*c.MaxRunning, 1, maxQueue)
	within("Threads", &c.Threads, 0, 0, llama.MaxThreads)
	switch {
	case c.HostCells < 0 || c.HostCells > 0 && c.HostCells < MinHostCells:
		errs = append(errs, fmt.Errorf("scheduler: HostCells is %d, must be 0 or at least %d", c.HostCells, MinHostCells))
	case c.HostCells > 0 && (sequences < 1 || c.NoPrefixCache):
		errs = append(errs, fmt.Errorf("scheduler: HostCells is %d, which needs a second sequence and a prefix cache: "+
			"not with Isolate or NoPrefixCache", c.HostCells))
	}
	if c.QueueTime < 0 {
		errs = append(errs, fmt.Errorf("scheduler: QueueTime is %s, must not be negative", c.QueueTime))
	}
	return errors.Join(errs...)
}
