package core

// Plan returns the next step. If it has rows, Commit must follow. A plan without rows may
// still have memory operations.
func (c *Core) Plan() *Plan {
	if c.inFlight {
		panic("core: Plan before the Commit of the last one")
	}
	c.dropDeliveredOps()
	c.step++
	c.plan.Started = c.plan.Started[:0]
	c.rematch()
	for _, s := range c.freeing {
		c.freeSeq(s)
	}
	c.freeing = c.freeing[:0]
	if len(c.running) == 0 {
		c.admissionPaused, c.overcommitted = false, false
	}
	c.admit()
	c.schedule()
	for len(c.plan.Rows) == 0 && len(c.running) > 0 {
		// Reservations prevent this, except with overcommitment or a lost leader.
		c.preemptYoungest()
		c.schedule()
	}
	c.plan.Adapter = c.turn.adapter
	c.opsDelivered = true
	c.inFlight = len(c.plan.Rows) > 0
	c.check()
	return &c.plan
}

// rematch finds another prefix for sequences that lost their leader, whose cells are still cached.
func (c *Core) rematch() {
	for i, s := range c.running {
		if s.needsRematch {
			s.needsRematch = false
			c.attachPrefix(s, c.matchPrefix(s.owner, s.reusable(), i))
			c.advanceFollowers(s)
		}
	}
}

// schedule plans the rows: decoding sequences first, then prompt chunks, then speculative tokens. If the sequences need
// more rows than a step may have, the order rotates with each step. The last prompt token may need a separate step, see
// isolatesLast. Without PartialCopy a chunk ends where followers copy the sequence, and before a snapshot.
func (c *Core) schedule() {
	c.rematch() // a leader may have made way in this plan
	c.plan.Rows, c.plan.Samples, c.plan.Scores, c.scheduled = c.plan.Rows[:0], c.plan.Samples[:0], c.plan.Scores[:0], c.scheduled[:0]
	c.scoreRows = max(0, min(maxScoreRows, c.cfg.MaxOutputs-len(c.running)))
	c.decodes, c.prefills = c.decodes[:0], c.prefills[:0]
	followers, total := 0, 0
	for _, s := range c.running {
		switch {
		case s.leader != nil: // which started before it
			followers++
			if !c.cfg.PartialCopy {
				s.leader.chunk = min(s.leader.chunk, s.sharedLen-s.leader.length)
			}
		case s.inPrefill():
			s.granted, s.chunk = 0, s.numRemaining()
			fresh := s.cand == promptOnly || len(s.group.candidates[s.cand].tokens) == 0
			if fresh && (s.group.isolatesLast() || !c.cfg.PartialCopy) {
				s.chunk-- // see snapshot
			}
			c.prefills = append(c.prefills, s)
		default:
			c.decodes = append(c.decodes, s)
			total += s.numRemaining()
		}
	}
	c.tree.order(c.decodes)
	budget, first := c.rowLimit, 0
	if len(c.prefills) > 0 {
		budget -= c.rowLimit / prefillFloor
	}
	if total > budget {
		first = int(c.step % uint64(len(c.decodes)))
	}
	for i := 0; i < len(c.decodes) && budget > 0; i++ {
		s := c.decodes[(first+i)%len(c.decodes)]
		budget -= c.scheduleRows(s, min(budget, s.numRemaining()))
	}
	c.schedulePrefills(followers)
	c.speculate()
}

// scheduleRows plans n rows of s, or as many as there are cells for, and returns how many.
func (c *Core) scheduleRows(s *sequence, n int) int {
	planned, scored := len(c.plan.Rows), s.length+n // the first row whose logits are wanted
	if s.cand == promptOnly && s.group.ScoreFrom > 0 {
		scored = max(s.length, s.group.ScoreFrom-1)
		n = min(n, scored-s.length+1+c.scoreRows)
	}
	if !c.makeRoom(planned + n) {
		n = c.cfg.Cells - c.tree.used - planned
	}
	if n <= 0 {
		return 0
	}
	tokens := s.remaining()[:n]
	for i, t := range tokens {
		c.plan.Rows = append(c.plan.Rows, Row{Token: t, Pos: s.length + i, Seq: s.id})
	}
	for at := scored; at < s.length+n; at++ {
		row := planned + at - s.length
		c.plan.Rows[row].Output = true
		c.plan.Scores = append(c.plan.Scores, Score{Row: row, Request: s.group.ID, Index: at + 1})
	}
	c.scoreRows -= max(0, s.length+n-scored-1) // one is the sequence's own
	s.inContext = true
	f := scheduledRows{seq: s, tokens: tokens, prefill: n}
	if s.cand != promptOnly {
		f.prefill = max(0, min(n, s.numRemaining()-s.group.candidates[s.cand].pending))
	}
	if n == s.numRemaining() { // the last row gives the next token
		row := len(c.plan.Rows) - 1
		c.plan.Rows[row].Output = true
		first := s.cand
		f.firstSample, f.samples = len(c.plan.Samples), 1
		if first == promptOnly {
			first, f.samples = 0, s.group.N
		}
		for i := range f.samples {
			c.plan.Samples = append(c.plan.Samples, Sample{Row: row, Request: s.group.ID, Candidate: first + i})
		}
	}
	c.scheduled = append(c.scheduled, f)
	return n
}

// scheduledRows is the rows of one sequence in the step in flight.
type scheduledRows struct {
	seq     *sequence
	tokens  []Token
	prefill int // how many of tokens are of a prompt or computed again, and not new tokens of a candidate
	samples int
	// firstSample is the index of the first sample in the plan.
	firstSample int
	drafts      []Token // speculative tokens after tokens
}
