package core

import "slices"

// turn is the current adapter. All rows of a step have the same adapter, since llama.cpp applies it to a whole batch.
//
// While no request of another adapter waits, requests start as they arrive. Once one waits, requests of the current
// adapter wait too if they arrived after the turn began. So requests of one adapter that wait together run together.
// When no sequence runs, the adapter of the first waiting request gets the turn. A request waits for at most one turn
// of each other adapter, and each turn is finite. A higher priority ends a turn at once, see chooseAdapter.
type turn struct {
	adapter AdapterID
	// until is group.arrival of the last request before the turn began.
	until    uint64
	arrivals uint64 // number of all requests so far
}

// chooseAdapter begins the turn of the first request's adapter when the current adapter has nothing of that
// priority to run. It preempts the running sequences, which then have a lower level.
func (c *Core) chooseAdapter() {
	top := c.groups[0]
	if slices.ContainsFunc(c.running, func(s *sequence) bool { return s.group.level >= top.Priority }) {
		return
	}
	if g := c.firstStartable(); g != nil && g.Priority == top.Priority {
		return
	}
	for _, g := range c.groups {
		if g.started && g.Priority == top.Priority && g.Adapter == c.turn.adapter { // it runs, or waits for room
			return
		}
	}
	for len(c.running) > 0 {
		c.preempt(c.lowest(), true)
	}
	c.turn.adapter, c.turn.until = top.Adapter, c.turn.arrivals
	c.stats.AdapterTurns++
	c.version++
}

// startable yields the requests that have not started and may start in this turn, in the order of Core.groups.
func (c *Core) startable(yield func(*group) bool) {
	othersWait := false
	for _, g := range c.groups {
		switch {
		case g.Adapter != c.turn.adapter:
			othersWait = true
		case g.started || othersWait && g.arrival > c.turn.until:
		case !yield(g):
			return
		}
	}
}

// firstStartable returns the first of startable, or nil.
func (c *Core) firstStartable() *group {
	for g := range c.startable {
		return g
	}
	return nil
}

// DropAdapter frees all cached prefixes of an adapter, in host memory too. No request of the adapter may be
// alive or be submitted later.
func (c *Core) DropAdapter(id AdapterID) { c.drop(func(o owner) bool { return o.adapter == id }) }

// ClearCache frees all cached prefixes, in host memory too. Running sequences and prompts that candidates will still
// fork from stay.
func (c *Core) ClearCache() { c.drop(func(owner) bool { return true }) }

func (c *Core) drop(of func(owner) bool) {
	for i := range c.seqs {
		if s := &c.seqs[i]; s.state == seqCached && of(s.owner) && !s.isForkSource() {
			c.freeSeq(s)
		}
	}
	if c.host != nil {
		for e := c.host.order.Front(); e != nil; {
			b := e.Value.(*hostBlock)
			if e = e.Next(); of(b.owner) {
				c.dropBlock(b)
			}
		}
	}
	c.check()
}
