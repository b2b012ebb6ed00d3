package core

// Stats holds the gauges (int) and counters (uint64) of a Core. The tags declare the metric
// of each one: its name, its help text, and whether it is also exported for each context.
type Stats struct {
	// Requests is the number of live requests.
	Requests int
	Running  int `metric:"num_requests_running" help:"Candidates in prefill or decode." context:"true"`
	Waiting  int `metric:"num_requests_waiting" help:"Candidates waiting for a sequence." context:"true"`
	// Cached is the number of sequences kept for their prefixes.
	Cached      int `metric:"sequences_cached" help:"Sequences kept for their prefixes."`
	Cells       int `metric:"kv_cache_cells" help:"Size of the KV cache in cells; a cell holds one token." context:"true"`
	UsedCells   int `metric:"kv_cache_cells_used" help:"KV cache cells in use, cached prefixes included." context:"true"`
	ActiveCells int `metric:"kv_cache_cells_active" help:"KV cache cells that running sequences need. The other used cells can be evicted."`
	HostCells   int `metric:"host_cache_cells" help:"Size of the host memory cache in cells."`
	HostUsed    int `metric:"host_cache_cells_used" help:"Cells in the host memory cache."`

	PromptTokens uint64 `metric:"prompt_tokens_total" help:"Prompt tokens received."`
	// QueriedTokens and CachedTokens are counted when the prompt is complete, once for each
	// request.
	QueriedTokens uint64 `metric:"prefix_cache_queries_total" help:"Prompt tokens looked up in the prefix cache."`
	CachedTokens  uint64 `metric:"prefix_cache_hits_total" help:"Prompt tokens found in the prefix cache."`
	// PrefillTokens include those computed again after a preemption.
	PrefillTokens   uint64 `metric:"prefill_tokens_total" help:"Prompt tokens computed." context:"true"`
	GeneratedTokens uint64 `metric:"generation_tokens_total" help:"Tokens generated, sampled or forced by a grammar." context:"true"`
	ForcedTokens    uint64 `metric:"forced_tokens_total" help:"Generated tokens for which the grammar allowed one choice. They take no decode step."`
	DraftTokens     uint64 `metric:"spec_decode_num_draft_tokens_total" help:"Speculative tokens computed."`
	// AcceptedTokens include speculative tokens that the grammar forced.
	AcceptedTokens uint64 `metric:"spec_decode_num_accepted_tokens_total" help:"Speculative tokens accepted."`
	Steps          uint64 `metric:"steps_total" help:"Decode steps." context:"true"`
	Rows           uint64 `metric:"step_tokens_total" help:"Tokens in all steps, speculative ones included. Divided by agentd_steps_total: the mean batch size." context:"true"`
	Finished       uint64 `metric:"candidates_finished_total" help:"Candidates that generated to their end."`
	Repeated       uint64 `metric:"candidates_repeated_total" help:"Candidates ended because they repeated themselves."`
	Paused         uint64 `metric:"generations_paused_total" help:"Generations interrupted by a pause, once for each pause."`
	Cancelled      uint64 `metric:"generations_cancelled_total" help:"Generations cancelled by their caller."`
	Failed         uint64 `metric:"generations_failed_total" help:"Generations that ended with a model error."`
	Forked         uint64 `metric:"sequences_forked_total" help:"Sequences copied from the prompt of their request."`
	Evicted        uint64 `metric:"sequences_evicted_total" help:"Cached sequences evicted."`
	Trimmed        uint64 `metric:"sequences_trimmed_total" help:"Cached sequences whose end was evicted."`
	EvictedCells   uint64 `metric:"kv_cache_cells_evicted_total" help:"Cells evicted from the prefix cache."`
	Preemptions    uint64 `metric:"num_preemptions_total" help:"Running sequences preempted and computed again later."`
	SavedCells     uint64 `metric:"host_cache_cells_saved_total" help:"Evicted cells copied to host memory."`
	LoadedCells    uint64 `metric:"host_cache_cells_loaded_total" help:"Cells copied back from host memory."`
	AdapterTurns   uint64 `metric:"adapter_turns_total" help:"Times that a context changed to another adapter of the weights, or to none." context:"true"`
	NoSlotSteps    uint64 `metric:"steps_no_slot_total" help:"Steps that found no free cells and were planned again with fewer rows."`
	FailedSteps    uint64 `metric:"steps_failed_total" help:"Steps whose computation failed." context:"true"`
}

// Stats returns the gauges and counters.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Requests, s.Running = len(c.groups), len(c.running)
	s.Cached = len(c.seqs) - len(c.freeSeqs) - len(c.running) - len(c.freeing)
	s.UsedCells, s.ActiveCells, s.Cells = c.tree.used, c.tree.active, c.cfg.Cells
	if s.HostCells = c.cfg.HostCells; c.host != nil {
		s.HostUsed = c.host.used
	}
	for _, g := range c.groups {
		if g.started {
			s.Waiting += len(g.waiting)
		} else {
			s.Waiting += g.unfinished
		}
	}
	return s
}

// InheritCounters continues the counters of old, which c replaces, and what it knows of the time of steps.
func (c *Core) InheritCounters(old *Core) { c.stats, c.times = old.stats, old.times }
