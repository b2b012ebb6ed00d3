package core

import (
	"cmp"
	"slices"
)

// prefillBudget bounds the prompt rows of a step.
type prefillBudget struct {
	rows int
	cost float64 // in rows without visible cells
}

// schedulePrefills plans rows of prompts, of one priority the shortest remaining prompt first: this gives
// the lowest mean time to first token. A share is reserved for the oldest prompt, so that a long
// one progresses.
func (c *Core) schedulePrefills(left prefillBudget) {
	if len(c.prefills) == 0 || left.rows <= 0 {
		return
	}
	for _, s := range c.prefills {
		s.granted = 0
	}
	oldest := prefillBudget{rows: max(1, left.rows/oldestShare), cost: left.cost / oldestShare}
	left.grant(c, c.prefills[0], oldest, 1)
	c.byRemaining = append(c.byRemaining[:0], c.prefills...)
	slices.SortStableFunc(c.byRemaining, func(a, b *sequence) int {
		return cmp.Or(b.group.Priority-a.group.Priority, a.numRemaining()-b.numRemaining())
	})
	for _, s := range c.byRemaining {
		left.grant(c, s, left, 0)
	}
	for _, s := range c.prefills {
		if s.granted > 0 {
			c.scheduleRows(s, s.granted)
		}
	}
}

// newPrefillBudget returns what is left for prompts beside the planned decode rows. followers
// is the number of prompts that wait for the prefill of another one.
func (c *Core) newPrefillBudget(followers int) prefillBudget {
	b := prefillBudget{rows: c.rowLimit - len(c.plan.Rows)}
	most := 1.0
	for _, s := range c.prefills {
		most = max(most, c.rowCost(s))
	}
	b.cost = float64(b.rows) * most
	switch {
	case len(c.plan.Rows) == 0:
	case c.cfg.PrefillChunk > 0:
		b.rows = min(b.rows, c.cfg.PrefillChunk)
	default:
		decodes := 0.0
		for _, f := range c.scheduled {
			decodes += float64(len(f.tokens)) * c.rowCost(f.seq)
		}
		b.cost = min(b.cost, max(decodes, MinPrefillCost)*float64(len(c.prefills)+followers))
	}
	return b
}

// sharedRows is how many prompt rows read their cells for the cost of one decode row: rows of
// a prompt see the same cells, which are read once (BenchmarkLongPrompt).
const sharedRows = 3

// rowCost returns the cost of the next row of s.
func (c *Core) rowCost(s *sequence) float64 {
	if c.cfg.RowCells == 0 {
		return 1
	}
	cells := float64(s.length)
	if s.numRemaining() > 1 {
		cells /= sharedRows
	}
	return 1 + cells/float64(c.cfg.RowCells)
}

// grant gives more rows to a prompt, as many as part allows but at least least, and takes them off
// the budget.
func (b *prefillBudget) grant(c *Core, s *sequence, part prefillBudget, least int) {
	each := c.rowCost(s)
	n := min(part.rows, max(int(part.cost/each), least), c.chunkSize(s)-s.granted)
	s.granted += n
	b.rows -= n
	b.cost = max(0, b.cost-float64(n)*each)
}
