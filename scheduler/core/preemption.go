package core

import "slices"

// preemptYoungest preempts the last started running sequence of the lowest level, and pauses admission until
// a sequence ends.
func (c *Core) preemptYoungest() {
	c.admissionPaused = true
	c.preempt(c.lowest(), false)
}

// lowest returns the last started running sequence of the lowest level.
func (c *Core) lowest() (lowest *sequence) {
	for _, s := range c.running {
		if lowest == nil || s.group.level <= lowest.group.level {
			lowest = s
		}
	}
	return lowest
}

// preempt stops the sequence of a candidate or of a whole prompt. That starts again from the longest cached prefix when
// cells are free. The sequence's cells are freed, or with keep cached.
func (c *Core) preempt(s *sequence, keep bool) {
	c.stats.Preemptions++
	g, cand := s.group, s.cand
	if keep && s.length > 0 {
		c.stop(s, seqCached)
	} else {
		c.stop(s, seqFreeing)
		c.saveToHost(s, s.length-s.privateCells())
		c.freeSeq(s)
	}
	if g.running == 0 {
		g.Since += c.second - g.ran // it waits again
	}
	if cand == promptOnly {
		g.started = false
		return
	}
	g.waiting = slices.Insert(g.waiting, 0, cand)
}
