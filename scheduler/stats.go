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

	// PromptTokens were received; CachedTokens of them were there, PrefillTokens
	// were computed. GeneratedTokens belong to answers; ForcedTokens of them were not
	// sampled, since the grammar left no choice.
	PromptTokens, CachedTokens, PrefillTokens, GeneratedTokens, ForcedTokens uint64
	// Steps were decoded, Rows in them: Rows/Steps is the mean batch width.
	Steps, Rows uint64
	// Finished and Refused count candidates and admissions; Cancelled and Failed
	// generations; Forked, Evicted and Parked sequences; NoSlot and Broken steps.
	Finished, Refused, Cancelled, Failed, Forked, Evicted, Parked, NoSlot, Broken uint64
	Times                                                                         Times
}

// Times is where the loop's time went, in total.
type Times struct{ Plan, Decode, Sample, Commit time.Duration }

// Stats returns the state as of the last step.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Admitted, s.QueueLimit, s.Refused = e.admitted, e.cfg.QueueLimit, e.refused
	return s
}

// publish makes the loop's counters visible.
func (l *loop) publish() {
	c := l.total()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats = Stats{
		Running: c.Running, Waiting: c.Waiting, Cached: c.Cached,
		Cells: c.Cells, UsedCells: c.Used, ActiveCells: c.Active,
		PromptTokens: c.PromptTokens, CachedTokens: c.CachedTokens,
		PrefillTokens: c.PrefillTokens, GeneratedTokens: c.GeneratedTokens, ForcedTokens: c.ForcedTokens,
		Steps: c.Steps, Rows: c.Rows,
		Finished: c.Finished, Cancelled: c.Cancelled, Failed: c.Failed, Forked: c.Forked,
		Evicted: c.Evicted, Parked: c.Parked, NoSlot: c.NoSlot, Broken: c.Broken,
		Times: l.times,
	}
}

// total is the core's state, with the counts of the cores before it.
func (l *loop) total() core.Stats {
	s := l.core.Stats()
	s.Add(&l.base)
	return s
}
