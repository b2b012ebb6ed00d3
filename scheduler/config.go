package scheduler

import (
	"fmt"
	"time"
)

// Config is the policy of an Engine. Zero values take the default.
type Config struct {
	// BatchTokens is the most tokens of one step, prompts and decode rows
	// together. Default and upper bound: the context's batch size.
	BatchTokens int
	// PrefillChunk is the most prompt tokens of a step in which other sequences
	// decode: larger ends prompts sooner, smaller gives the others their next
	// token sooner. Default: what costs as much as the decode rows, see core.Config,
	// with RowCells from the model's shape.
	PrefillChunk int
	// MaxSequences is the number of sequence ids, for running and cached
	// sequences together. Default and upper bound: the context's.
	MaxSequences int
	// HostCells is how many evicted cells of each context are kept in host memory, to be
	// loaded instead of computed again. It takes a sequence id, and New answers
	// ErrNoHostCache for models whose memory can't be kept in parts. 0: none.
	HostCells int
	// MaxRunning is how many sequences decode at once. Default and upper bound:
	// the context's outputs.
	MaxRunning int
	// QueueLimit is how many candidates may be admitted at once, waiting and
	// running together. Default: 64 times MaxRunning.
	QueueLimit int
	// QueueTime refuses what would wait longer: when more candidates wait, beside the
	// MaxRunning of each context that are in work, than end in that time at the pace of
	// late. Where answers that come late are of
	// no use, that keeps the server from working for nobody. 0: no limit.
	QueueTime time.Duration
	// SampleWorkers is how many goroutines sample, unless as many threads compute on the CPU, which
	// do it then. Default: GOMAXPROCS.
	SampleWorkers int
	// Threads, above 1, is how many threads compute a step on free processors. While other
	// programs use these too, the engine computes with fewer where that is faster, see
	// core.Threads. 0: the context's threads, always.
	Threads int
	// Alone computes each generation by itself, with nothing in the cache. So the same
	// generation is always computed in the same steps and cells and has the same
	// completions, whatever else there is. Beside others it is not: kernels round
	// differently for one row and for many, and sums of floating-point numbers depend on
	// the order of the cells.
	BatchInvariant bool
	// NoPrefixCache computes every prompt from its first token on: to measure what the
	// prefix cache is worth, and what it costs. Candidates of one prompt still share it.
	NoPrefixCache bool
	// DraftRows is up to how many rows a step is filled with guesses of what candidates
	// say next, see core.Config; the context's outputs are the bound of it. Not with Alone, nor
	// for models whose memory can't take them back. 0: nothing is guessed.
	DraftRows int
	// NoForcedTokens samples every token, also where a grammar leaves no choice: to
	// measure what forced tokens are worth.
	NoForcedTokens bool
}

// complete fills in the defaults and checks the rest against the context.
func (c *Config) complete(batch, sequences, outputs, procs int) error {
	if c.HostCells < 0 || c.HostCells > 0 && c.HostCells < MinHostCells {
		return fmt.Errorf("scheduler: HostCells is %d, must be 0 or at least %d", c.HostCells, MinHostCells)
	}
	if c.HostCells > 0 {
		if sequences--; sequences < 1 || c.BatchInvariant || c.NoPrefixCache { // one is to copy through
			return fmt.Errorf("scheduler: HostCells is %d, which takes a second sequence and a cache: not with Alone or NoPrefixCache", c.HostCells)
		}
	}
	for _, f := range []struct {
		name             string
		value            *int
		otherwise, limit int
	}{
		{"BatchTokens", &c.BatchTokens, batch, batch},
		{"MaxSequences", &c.MaxSequences, sequences, sequences},
		{"MaxRunning", &c.MaxRunning, min(outputs, sequences), outputs},
	} {
		if *f.value == 0 {
			*f.value = f.otherwise
		}
		if *f.value < 1 || *f.value > f.limit {
			return fmt.Errorf("scheduler: %s is %d, the context allows 1 to %d", f.name, *f.value, f.limit)
		}
	}
	if c.PrefillChunk < 0 || c.PrefillChunk > c.BatchTokens {
		return fmt.Errorf("scheduler: PrefillChunk is %d, must be 0 to BatchTokens (%d)", c.PrefillChunk, c.BatchTokens)
	}
	if c.DraftRows < 0 || c.DraftRows > outputs {
		return fmt.Errorf("scheduler: DraftRows is %d, the context allows 0 to %d", c.DraftRows, outputs)
	}
	if c.QueueLimit == 0 {
		c.QueueLimit = queueFactor * c.MaxRunning
	}
	if c.QueueLimit < 1 {
		return fmt.Errorf("scheduler: QueueLimit is %d, must be at least 1", c.QueueLimit)
	}
	if c.Threads < 0 || c.Threads > 0 && c.BatchInvariant {
		return fmt.Errorf("scheduler: Threads is %d, must be at least 0, and 0 with Alone: results depend on the threads", c.Threads)
	}
	if c.QueueTime < 0 {
		return fmt.Errorf("scheduler: QueueTime is %s, must not be negative", c.QueueTime)
	}
	if c.SampleWorkers == 0 {
		c.SampleWorkers = procs
	}
	if c.SampleWorkers < 1 {
		return fmt.Errorf("scheduler: SampleWorkers is %d, must be at least 1", c.SampleWorkers)
	}
	return nil
}
