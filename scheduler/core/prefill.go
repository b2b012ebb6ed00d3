package core

import "slices"

// budget is what the prompts of a step may take.
type budget struct {
	rows int
	// cost is in rows that see nothing.
	cost float64
}

// sharedRows is how many rows of a prompt go through what they see for the cost of one that
// decodes: they see the same, which is read once for all of them (BenchmarkLongPrompt).
const sharedRows = 3

// rowCost is what the next row of s costs.
func (c *Core) rowCost(s *sequence) float64 {
	if c.cfg.RowCells == 0 {
		return 1
	}
	cells := float64(s.length)
	if s.pending() > 1 {
		cells /= sharedRows
	}
	return 1 + cells/float64(c.cfg.RowCells)
}

// promptBudget is what is left for prompts beside the planned decode rows;
// following prompts wait for others.
func (c *Core) promptBudget(following int) budget {
	b := budget{rows: c.limit - len(c.plan.Rows)}
	b.cost = float64(b.rows) * c.costliest()
	switch {
	case len(c.plan.Rows) == 0:
	case c.cfg.PrefillChunk > 0:
		b.rows = min(b.rows, c.cfg.PrefillChunk)
	default:
		decodes := 0.0
		for _, f := range c.fed {
			decodes += float64(len(f.tokens)) * c.rowCost(f.seq)
		}
		b.cost = min(b.cost, max(decodes, PrefillLeast)*float64(len(c.prefills)+following))
	}
	return b
}

// costliest is the most that a row of a prompt costs.
func (c *Core) costliest() float64 {
	most := 1.0
	for _, s := range c.prefills {
		most = max(most, c.rowCost(s))
	}
	return most
}

// feedPrompts plans rows of prompts, those first that have the fewest left: they
// decode soonest, and the mean time to the first token is the least. A share is
// kept for the oldest, so that a long one gets on.
func (c *Core) feedPrompts(left budget) {
	if len(c.prefills) == 0 || left.rows <= 0 {
		return
	}
	c.shares = c.shares[:0]
	for _, s := range c.prefills {
		c.shares = append(c.shares, share{seq: s})
	}
	oldest := budget{rows: max(1, left.rows/oldestShare), cost: left.cost / oldestShare}
	left.give(c, &c.shares[0], oldest, 1)
	c.order = append(c.order[:0], c.prefills...)
	slices.SortStableFunc(c.order, func(a, b *sequence) int { return a.pending() - b.pending() })
	for _, s := range c.order {
		i := slices.IndexFunc(c.shares, func(sh share) bool { return sh.seq == s })
		left.give(c, &c.shares[i], left, 0)
	}
	for _, sh := range c.shares {
		if sh.rows > 0 {
			c.feed(sh.seq, sh.rows)
		}
	}
}

// give adds to a share what part of the budget allows, at least so many rows, and
// takes it off the budget.
func (b *budget) give(c *Core, sh *share, part budget, least int) {
	each := c.rowCost(sh.seq)
	n := min(part.rows, max(int(part.cost/each), least), c.chunk(sh.seq)-sh.rows)
	sh.rows += n
	b.rows -= n
	b.cost = max(0, b.cost-float64(n)*each)
}
