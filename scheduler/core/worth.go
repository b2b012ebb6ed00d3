package core

// worth decides how many cells are kept for their prefixes. Those that nobody comes back for cost a
// little all the same: what runs gets the cells that nobody has touched for longest, lying
// apart, and where attention goes through all cells up to the last one in use, through
// those in between. So a cache in which next to nothing is found is kept small, until a
// prompt comes that a large one would have had.
//
// A token is one for a large cache when more others were touched since it was touched last
// than a small one keeps, whether it is found or was lost. It pays for worthPrice rows; while
// more than that are computed for each, the credit runs out.
type worth struct {
	cells, small int // kept, at most
	near         int // what was touched so few tokens ago is in a small cache
	block        int
	// credit is for how many rows the large cache is kept.
	credit int
	// asked: since the credit ran out it was looked what those begin with that wait.
	asked bool
	// touched counts tokens of prompts and answers, each time anew: what all begin with
	// makes the others look touched longer ago than they were, so that a large cache looks
	// worth more than it is.
	touched uint64
	seen    *Recent // the count of touched at which a block was touched last
}

// newWorth returns one for cfg. whole: ends of sequences can't be evicted, always.
func newWorth(cfg *Config, whole bool) *worth {
	if cfg.NoReuse {
		return nil
	}
	w := &worth{cells: cfg.Cells, small: cfg.Cells / smallShare, block: cfg.PrefixBlock}
	w.near = w.small
	if whole {
		w.near /= 2 // much is left free
	}
	w.seen = NewRecent(cfg.Cells / w.block)
	w.credit = w.most()
	return w
}

// most is the credit that is about enough to fill the cache twice: what it could have had
// of what comes back, it has had by then.
func (w *worth) most() int { return 2 * w.cells }

// limit is how many cells are kept for their prefixes.
func (w *worth) limit() int {
	switch {
	case w == nil:
		return 0
	case w.credit > 0:
		return w.cells
	}
	return w.small
}

func (w *worth) earn(tokens int) { w.credit = min(w.credit+worthPrice*tokens, w.most()) }

// computed takes rows off the credit.
func (w *worth) computed(rows int) {
	if w != nil && w.credit > 0 {
		w.credit = max(0, w.credit-rows)
		w.asked = false
	}
}

// generated notes tokens that were touched for the first time.
func (w *worth) generated(tokens int) {
	if w != nil {
		w.touched += uint64(tokens)
	}
}

// far says that a block was touched, but too long ago for a small cache, or never.
func (w *worth) far(b PrefixHash) (far, seen bool) {
	last, seen := w.seen.Last(b)
	return !seen || w.touched-last+uint64(w.block) > uint64(w.near), seen
}

// arrived looks whether a small cache has lost what a prompt begins with.
func (w *worth) arrived(blocks []PrefixHash) {
	if w == nil || w.credit > 0 {
		return
	}
	for _, b := range blocks {
		if far, seen := w.far(b); far && seen {
			w.earn(w.block)
		} else if !seen {
			return
		}
	}
}

// started notes that a prompt has a sequence now, which has its first found tokens. What it
// has lost counts as well: so each of many that come back one after the other does its part
// to keep the cache large until the first of them is back again.
func (w *worth) started(j *Job, found int) {
	if w == nil {
		return
	}
	deep, beyond := 0, false
	for i, b := range j.Blocks {
		far, seen := w.far(b)
		there := (i+1)*w.block <= found
		if seen || !there || i == 0 {
			beyond = far
		} // else it is of an answer, and lies where the prompt lies that it answered
		if beyond && (there || seen) {
			deep += w.block
		}
		w.touched += uint64(w.block)
		w.seen.Note(b, w.touched)
	}
	w.touched += uint64(len(j.Prompt) - len(j.Blocks)*w.block)
	w.earn(deep)
}

// shrink evicts what is cached beyond the limit, a step's worth at a time: it may have to be
// saved. What is of use to candidates that wait stays, and all does when a prompt waits that
// begins with what would go.
func (c *Core) shrink() {
	least := c.tree.used - c.cfg.BatchTokens
	for c.tree.used > least {
		over := c.tree.used - c.tree.active - c.worth.limit()
		if over <= 0 {
			return
		}
		if w := c.worth; w != nil && !w.asked {
			w.asked = true
			for _, j := range c.jobs {
				if !j.started {
					w.arrived(j.Blocks)
				}
			}
			continue
		}
		victim := c.victim(nil, true)
		if victim == nil || victim.job != nil && len(victim.job.waiting) > 0 {
			return
		}
		c.cut(victim, min(over, c.tree.used-least))
	}
}
