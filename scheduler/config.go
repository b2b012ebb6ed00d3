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

// Policy holds the options that each context's scheduling takes.
type Policy = core.Policy

// Config is the policy of an Engine. Zero values select the defaults. Of Policy, the
// defaults and upper bounds are the context's: its batch size for BatchTokens, its sequence
// ids for MaxSequences, its outputs for MaxRunning and DraftRows. HostCells holds for each
// context and takes a sequence id; New returns ErrNoHostCache for models whose memory cannot
// save parts of a sequence. DraftRows has no effect for models whose memory cannot remove rejected
// tokens.
type Config struct {
	Policy
	// QueueLimit is the limit of admitted candidates, waiting and running together. Default:
	// 64 times MaxRunning.
	QueueLimit int
	// QueueTime refuses candidates that would probably wait longer, at the recent rate. So the
	// server does not compute answers that come too late. The MaxRunning candidates of each
	// context do not count as waiting. 0: no limit.
	QueueTime time.Duration
	// Threads, above 1, is the number of threads that compute a step on free processors. While
	// other programs use them, fewer threads compute if that is faster, see core.Threads. 0:
	// always the context's threads.
	Threads int
	// Isolate computes each generation alone, in an empty context: always in the same steps and
	// cells, with the same completions. It is for kernels that round differently for one row and
	// for many, or whose sums depend on the order of cells.
	Isolate bool
	// NoForcedTokens samples every token, to measure the benefit of forced tokens.
	NoForcedTokens bool
	// OnStuck is called on another goroutine each time a step does not end; nil: it is not.
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
