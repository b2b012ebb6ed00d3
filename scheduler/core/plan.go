package core

// Plan returns the next step. When it has rows, Commit must follow; one without
// rows has at most memory operations to be applied.
func (c *Core) Plan() *Plan {
	if c.inFlight {
		panic("core: Plan before the Commit of the last one")
	}
	c.freshPlan()
	c.tick++
	c.plan.Started = c.plan.Started[:0]
	c.adopt()
	for _, s := range c.dying {
		c.release(s)
	}
	c.dying = c.dying[:0]
	if len(c.running) == 0 {
		c.hold, c.overbooked = false, false
	}
	c.admit()
	c.fill()
	for len(c.plan.Rows) == 0 && len(c.running) > 0 {
		// The reservations make this impossible but for a prompt that lost the
		// donor it waited for; the youngest gives its cells to the older ones.
		c.parkYoungest()
		c.fill()
	}
	c.delivered = true
	c.inFlight = len(c.plan.Rows) > 0
	c.check()
	return &c.plan
}

// fill plans the rows: those of the decoding sequences, then prompts in chunks, then guesses.
func (c *Core) fill() {
	c.plan.Rows, c.plan.Samples, c.fed = c.plan.Rows[:0], c.plan.Samples[:0], c.fed[:0]
	c.decodes, c.prefills = c.decodes[:0], c.prefills[:0]
	following := 0
	for _, s := range c.running {
		switch {
		case s.donor != nil:
			following++
		case s.prefilling():
			c.prefills = append(c.prefills, s)
		default:
			c.decodes = append(c.decodes, s)
		}
	}
	budget := c.limit
	if len(c.prefills) > 0 {
		budget -= c.limit / prefillFloor
	}
	c.feedAll(c.decodes, budget)
	c.feedPrompts(c.promptBudget(following))
	c.draft()
}

// feedAll plans at most budget rows of the listed sequences. When that is not
// enough for all of them, another one is first in each step.
func (c *Core) feedAll(list []*sequence, budget int) {
	total := 0
	for _, s := range list {
		total += s.pending()
	}
	first := 0
	if total > budget {
		first = int(c.tick % uint64(len(list)))
	}
	for i := range list {
		if budget <= 0 {
			return
		}
		budget -= c.feed(list[(first+i)%len(list)], budget)
	}
}

// feed plans at most budget rows of s and returns how many.
func (c *Core) feed(s *sequence, budget int) int {
	n := min(budget, c.chunk(s))
	planned := len(c.plan.Rows)
	if !c.makeRoom(planned + n) {
		n = c.cfg.Cells - c.tree.used - planned
	}
	if n <= 0 {
		return 0
	}
	tokens := s.feed()[:n]
	for i, t := range tokens {
		c.plan.Rows = append(c.plan.Rows, Row{Token: t, Pos: s.length + i, Seq: s.id})
	}
	s.touched = true
	f := fed{seq: s, tokens: tokens, prefill: n}
	if s.cand != allCandidates {
		f.prefill = max(0, min(n, s.pending()-s.job.cands[s.cand].pending))
	}
	if n == s.pending() {
		f.sample = len(c.plan.Samples)
		f.samples = c.sample(s)
	}
	c.fed = append(c.fed, f)
	return n
}

// sample asks for the samples of the last planned row.
func (c *Core) sample(s *sequence) int {
	row := len(c.plan.Rows) - 1
	c.plan.Rows[row].Output = true
	if s.cand != allCandidates {
		c.plan.Samples = append(c.plan.Samples, Sample{Row: row, Job: s.job.ID, Candidate: s.cand})
		return 1
	}
	for i := range s.job.cands {
		c.plan.Samples = append(c.plan.Samples, Sample{Row: row, Job: s.job.ID, Candidate: i})
	}
	return s.job.N
}

// chunk returns how many tokens s can be fed at once. The last token of a prompt
// may be kept apart. Where only the end of a
// sequence can be copied, it stops where others wait for it and where a
// snapshot is taken.
func (c *Core) chunk(s *sequence) int {
	n := s.pending()
	if n == 1 {
		return n
	}
	if s.cand == allCandidates && (s.job.LastApart || !c.cfg.PartialCopy) {
		n-- // where it can't be cut, the snapshot is taken before the last token: see snapshot
	}
	if c.cfg.PartialCopy {
		return n
	}
	for _, f := range c.running {
		if f.donor == s {
			n = min(n, f.share-s.length)
		}
	}
	return n
}

func (c *Core) parkYoungest() {
	c.hold = true
	c.park(c.running[len(c.running)-1])
}
