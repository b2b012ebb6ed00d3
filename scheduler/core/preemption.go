package core

import "slices"

// preemptYoungest preempts the running sequence that started last, and pauses admission until
// a sequence ends.
func (c *Core) preemptYoungest() {
	c.admissionPaused = true
	c.preempt(c.running[len(c.running)-1])
}

// preempt frees the sequence of a candidate or of a whole prompt. Its tokens are computed
// again, from the best cached prefix, when there is room.
func (c *Core) preempt(s *sequence) {
	c.stats.Preemptions++
	g, cand := s.group, s.cand
	c.stopRunning(s, seqFreeing)
	c.saveToHost(s, s.length-s.privateCells())
	c.freeSeq(s)
	if cand == promptOnly {
		g.started = false
		return
	}
	g.waiting = slices.Insert(g.waiting, 0, cand)
}
