package core

// makeRoom evicts cached sequences until n cells are free, and reports whether they are. Of the last
// sequence it evicts the end only, since its prefix may still be used.
func (c *Core) makeRoom(n int) bool {
	for {
		short := n - (c.cfg.Cells - c.tree.used)
		if short <= 0 {
			return true
		}
		if victim := c.victim(nil, true); victim != nil {
			c.evictCells(victim, short)
			continue
		}
		// Cached sequences share cells, and one of them goes first. Cells of ended sequences are free in the next plan.
		victim := c.victim(nil, false)
		if victim == nil || c.tree.used == c.tree.active {
			return false
		}
		c.evict(victim, 0)
	}
}

// victim returns the cached sequence to evict, other than keep. With cells it must have private cells.
func (c *Core) victim(keep *sequence, cells bool) *sequence {
	var best *sequence
	for i := range c.seqs {
		s := &c.seqs[i]
		if s == keep || s.state != seqCached || cells && !s.leaf.private() {
			continue
		}
		if best == nil || c.evictBefore(s, best, cells) {
			best = s
		}
	}
	return best
}

// evictBefore reports whether a is a better victim than b. Sequences that waiting candidates need come last. If an id
// is needed and not cells, a sequence without private cells comes first, since its eviction loses nothing.
// Otherwise the least recently used comes first.
func (c *Core) evictBefore(a, b *sequence, cells bool) bool {
	if a.isForkSource() != b.isForkSource() {
		return b.isForkSource()
	}
	if !cells && c.cfg.PartialCopy && a.leaf.private() != b.leaf.private() {
		return b.leaf.private()
	}
	return a.lastUse < b.lastUse
}

// evictCells evicts at least about that many cells from the end of a cached sequence. It evicts all of it if the rest
// would be too short for a block of the host cache: without the rest, blocks after it could not be used.
func (c *Core) evictCells(victim *sequence, cells int) {
	cells = max(cells, c.tune.minEvict)
	rest := 0
	if c.host != nil {
		rest = c.host.minCells
	}
	length := victim.length - cells
	if !c.cfg.PartialCopy || c.cfg.NoPrefixCache || victim.privateCells() <= cells+rest || !c.usable(victim, length) {
		c.evict(victim, 0)
		return
	}
	c.saveToHost(victim, length)
	c.stats.Trimmed++
	c.stats.EvictedCells += uint64(cells)
	c.version++
	c.addOp(Op{Kind: OpRemove, Seq: victim.id, Pos: length})
	c.detach(victim) // it no longer holds the whole prompt
	c.tree.share(victim, victim, length)
}

// evict frees a cached sequence, except its first kept positions (see freeTail).
func (c *Core) evict(s *sequence, kept int) {
	c.saveToHost(s, s.length-s.privateCells())
	c.stats.Evicted++
	used := c.tree.used
	c.freeTail(s, kept)
	c.stats.EvictedCells += uint64(used - c.tree.used)
}
