package core

// Stats is the state now and what was counted since New.
type Stats struct {
	// Now. Waiting counts candidates without a sequence (all of a job that has not
	// started); Used counts cells, Active those of them that running sequences need.
	Jobs, Running, Waiting, Cached int
	Used, Active, Cells            int
	// HostUsed cells are kept in host memory, of HostCells.
	HostUsed, HostCells int

	// PromptTokens were submitted; CachedTokens of them were there already,
	// PrefillTokens were computed (again, for a candidate that had to be parked).
	// ForcedTokens of the GeneratedTokens were not sampled.
	PromptTokens, CachedTokens, PrefillTokens, GeneratedTokens, ForcedTokens uint64
	// DraftTokens were guessed; AcceptedTokens of them were what the candidates said, sampled
	// or forced.
	DraftTokens, AcceptedTokens uint64
	// Steps were decoded, with Rows rows together.
	Steps, Rows uint64
	// Finished counts candidates, Repeated those of them that repeated themselves,
	// Cancelled and Failed jobs.
	Finished, Repeated, Cancelled, Failed uint64
	// Forked and Evicted count sequences, Shortened those whose end was evicted, Parked
	// those that had to make room; EvictedCells were freed by the two before it.
	Forked, Evicted, Shortened, EvictedCells, Parked uint64
	// SavedCells were copied to host memory, LoadedCells from there. They count as
	// CachedTokens once for each job.
	SavedCells, LoadedCells uint64
	// NoSlot and Broken count steps.
	NoSlot, Broken uint64
}

// Stats returns the counters.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Jobs, s.Running = len(c.jobs), len(c.running)
	s.Used, s.Active, s.Cells = c.tree.used, c.tree.active, c.cfg.Cells
	if s.HostCells = c.cfg.HostCells; c.host != nil {
		s.HostUsed = c.host.used
	}
	for i := range c.seqs {
		if c.seqs[i].state == cached {
			s.Cached++
		}
	}
	for _, j := range c.jobs {
		if j.started {
			s.Waiting += len(j.waiting)
		} else {
			s.Waiting += j.left
		}
	}
	return s
}

// Add adds the counters of o, those of an earlier core.
func (s *Stats) Add(o *Stats) {
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
}
