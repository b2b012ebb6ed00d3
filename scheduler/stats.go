package scheduler

import (
	"time"

	"agentd/scheduler/core"
)

// Stats are the engine's gauges and counters, for metrics. Counters only grow.
type Stats struct {
	// Admitted candidates hold a place in the queue of QueueLimit; Running ones
	// have a sequence, Waiting ones none yet.
	Admitted, QueueLimit, Running, Waiting int
	// Cached sequences are kept for their prefixes.
	Cached int
	// Cells of the KV cache; UsedCells hold something, ActiveCells are needed by
	// running sequences, the rest of the used ones can be evicted.
	Cells, UsedCells, ActiveCells int
	// Threads compute the next step on the CPU, of all contexts together; 0 beside a GPU.
	Threads int
	// HostCells are the room for evicted cells in host memory; HostUsed hold something.
	HostCells, HostUsed int

	// What a generation that moved had done before counts twice: it was done twice.

	// PromptTokens were received; CachedTokens of them were there, PrefillTokens
	// were computed. GeneratedTokens belong to answers; ForcedTokens of them were not
	// sampled, since the grammar left no choice.
	PromptTokens, CachedTokens, PrefillTokens, GeneratedTokens, ForcedTokens uint64
	// DraftTokens were guessed and computed; AcceptedTokens of them were what the
	// candidates said, sampled or forced.
	DraftTokens, AcceptedTokens uint64
	// Steps were decoded, Rows in them: Rows/Steps is the mean batch width,
	// guesses included.
	Steps, Rows uint64
	// Finished and Refused count candidates and admissions, Repeated the candidates that
	// ended since they repeated themselves; Cancelled and Failed generations, Moved those
	// that failed on one context and began again on another.
	Finished, Repeated, Refused, Cancelled, Failed, Moved uint64
	// Forked, Evicted and Parked count sequences, Shortened those whose end was
	// evicted; EvictedCells were freed by both.
	Forked, Evicted, Shortened, EvictedCells, Parked uint64
	// SavedCells were copied to host memory, LoadedCells from there. They count as
	// CachedTokens once for each job.
	SavedCells, LoadedCells uint64
	// NoSlot and Broken count steps.
	NoSlot, Broken uint64
	Times          Times
}

// Times is where the loop's time went, in total.
type Times struct{ Plan, Decode, Sample, Commit time.Duration }

// Stats returns the state as of the last step, of all contexts together.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	var s Stats
	for _, w := range e.workers {
		s.add(&w.stats)
	}
	s.Admitted, s.QueueLimit, s.Refused, s.Moved = e.admitted, e.cfg.QueueLimit, e.refused, e.moved
	return s
}

// ContextStats are those of one context. Admitted, QueueLimit, Refused and Moved
// are only the engine's.
type ContextStats struct {
	Stats
	Device string
	Up     bool // it is given work
}

// Contexts returns the state of each context.
func (e *Engine) Contexts() []ContextStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]ContextStats, len(e.workers))
	for i, w := range e.workers {
		list[i] = ContextStats{Stats: w.stats, Device: w.device, Up: w.health.up(e.now())}
	}
	return list
}

// Failure says why nothing can be generated any more: the devices of all contexts
// failed. Only another process can use them again.
func (e *Engine) Failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.workers {
		if !w.health.lost {
			return nil
		}
	}
	return errNoContext
}

func (s *Stats) add(o *Stats) {
	s.Running += o.Running
	s.Waiting += o.Waiting
	s.Cached += o.Cached
	s.Cells += o.Cells
	s.UsedCells += o.UsedCells
	s.ActiveCells += o.ActiveCells
	s.Threads += o.Threads
	s.HostCells += o.HostCells
	s.HostUsed += o.HostUsed
	s.PromptTokens += o.PromptTokens
	s.CachedTokens += o.CachedTokens
	s.PrefillTokens += o.PrefillTokens
	s.GeneratedTokens += o.GeneratedTokens
	s.ForcedTokens += o.ForcedTokens
	s.DraftTokens += o.DraftTokens
	s.AcceptedTokens += o.AcceptedTokens
	s.Steps += o.Steps
	s.Rows += o.Rows
	s.Finished += o.Finished
	s.Repeated += o.Repeated
	s.Cancelled += o.Cancelled
	s.Failed += o.Failed
	s.Forked += o.Forked
	s.Evicted += o.Evicted
	s.Shortened += o.Shortened
	s.EvictedCells += o.EvictedCells
	s.Parked += o.Parked
	s.SavedCells += o.SavedCells
	s.LoadedCells += o.LoadedCells
	s.NoSlot += o.NoSlot
	s.Broken += o.Broken
	s.Times.Plan += o.Times.Plan
	s.Times.Decode += o.Times.Decode
	s.Times.Sample += o.Times.Sample
	s.Times.Commit += o.Times.Commit
}

// publish makes the loop's counters visible.
func (w *worker) publish() {
	c := w.total()
	for _, j := range w.queue {
		c.Waiting += j.g.N
	}
	w.mu.Lock()
	w.stats = Stats{
		Running: c.Running, Waiting: c.Waiting, Cached: c.Cached,
		Cells: c.Cells, UsedCells: c.Used, ActiveCells: c.Active,
		Threads:   w.back.Team(),
		HostCells: c.HostCells, HostUsed: c.HostUsed,
		PromptTokens: c.PromptTokens, CachedTokens: c.CachedTokens,
		PrefillTokens: c.PrefillTokens, GeneratedTokens: c.GeneratedTokens, ForcedTokens: c.ForcedTokens,
		DraftTokens: c.DraftTokens, AcceptedTokens: c.AcceptedTokens,
		Steps: c.Steps, Rows: c.Rows,
		Finished: c.Finished, Repeated: c.Repeated, Cancelled: c.Cancelled + w.cancelled, Failed: w.failures, Forked: c.Forked,
		Evicted: c.Evicted, Shortened: c.Shortened, EvictedCells: c.EvictedCells, Parked: c.Parked,
		SavedCells: c.SavedCells, LoadedCells: c.LoadedCells, NoSlot: c.NoSlot, Broken: c.Broken,
		Times: w.times,
	}
	w.mu.Unlock()
}

// total is the core's state, with the counts of the cores before it.
func (w *worker) total() core.Stats {
	s := w.core.Stats()
	s.Add(&w.base)
	return s
}
