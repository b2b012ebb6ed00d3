package core

import (
	"cmp"
	"slices"
)

// schedulePrefills plans rows of prompts beside the decode rows, within a budget of rows and of their cost. followers
// is the number of prompts that wait for the prefill of another one. In each priority the shortest remaining prompt
// comes first, which minimizes the mean time to first token. A share is reserved for the oldest prompt, so that a long
// one progresses. The step's rows are rounded to multiples of rowGroup.
func (c *Core) schedulePrefills(followers int) {
	planned, most := len(c.plan.Rows), 1.0
	rows := c.rowLimit - planned
	if len(c.prefills) == 0 || rows <= 0 {
		return
	}
	for _, s := range c.prefills {
		most = max(most, c.rowCost(s))
	}
	cost := float64(rows) * most // in rows without visible cells
	switch {
	case planned == 0:
	case c.cfg.PrefillChunk > 0:
		rows = min(rows, c.cfg.PrefillChunk)
	default:
		decodes := 0.0
		for _, f := range c.scheduled {
			decodes += float64(len(f.tokens)) * c.rowCost(f.seq)
		}
		cost = min(cost, max(c.times.doubles(decodes), MinPrefillCost)*float64(len(c.prefills)+followers))
	}
	c.byRemaining = append(append(c.byRemaining[:0], c.prefills[0]), c.prefills...)
	slices.SortStableFunc(c.byRemaining[1:], func(a, b *sequence) int {
		return cmp.Or(b.group.Priority-a.group.Priority, a.numRemaining()-b.numRemaining())
	})
	for i, s := range c.byRemaining {
		each := c.rowCost(s)
		left, affords := rows, int(cost/each)
		if i == 0 { // the oldest
			left, affords = max(1, rows/oldestShare), max(1, int(cost/oldestShare/each))
		} else if whole := (planned + affords + rowGroup/2) / rowGroup * rowGroup; whole > rowGroup {
			affords = max(0, whole-planned)
		}
		n := min(left, affords, s.chunk-s.granted)
		s.granted += n
		planned += n
		rows -= n
		cost = max(0, cost-float64(n)*each)
	}
	for _, s := range c.prefills {
		if s.granted > 0 {
			c.scheduleRows(s, s.granted)
		}
	}
}

// sharedRows is how many rows of a prompt read cells for the cost of one decode row, since they see the same
// cells, which are read once (BenchmarkLongPrompt).
const sharedRows = 3

// rowCost returns the cost of the next row of s; a row without visible cells costs 1.
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
