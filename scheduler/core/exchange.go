package core

// Export finds a prefix for another context, which has the first from tokens of it. If the first
// length tokens are in cells of the adapter, at least from + least, the next plan saves those behind
// from as a block. The caller takes the block out of the memory once the plan's operations are
// applied. waits: the context has less now, and a prompt in prefill will have more. It must not be
// called between Plan and Commit.
func (c *Core) Export(adapter AdapterID, prefix []Token, from, least int) (id BlockID, length int, waits bool) {
	usable := func(s *sequence, n int) bool { return s.adapter == adapter && c.usable(s, n) }
	seq, length := c.tree.match(prefix, false, usable)
	if length < len(prefix) {
		for _, s := range c.running {
			if s.base == 0 && s.inPrefill() && s.adapter == adapter && commonPrefixLen(s.target, prefix) > max(length, s.length) {
				return 0, 0, true
			}
		}
	}
	if length < from+least {
		return 0, 0, false
	}
	c.host.next++
	c.addOp(Op{Kind: OpSave, Seq: seq.id, Pos: from, End: length, Block: c.host.next})
	return c.host.next, length, false
}

// Import announces a block with the cells of a prefix from position from on, which another context has
// computed with the same adapter. The caller puts the block into the memory under the returned id. The first prompt
// that begins like the prefix loads the block, and the core drops it then. It also drops blocks
// that no live request can need, and the oldest ones when there are too many.
func (c *Core) Import(adapter AdapterID, prefix []Token, from int) BlockID {
	h := c.host
	for e := h.order.Back(); e != nil && h.imported > 0 && h.imported+len(prefix)-from > h.importLimit; {
		b := e.Value.(*hostBlock)
		if e = e.Prev(); b.imported {
			c.dropBlock(b)
		}
	}
	c.version++
	b := h.add(adapter, prefix, from, true)
	c.check()
	return b.id
}

// dropBlocks drops the host blocks that match.
func (c *Core) dropBlocks(matches func(*hostBlock) bool) {
	if c.host == nil {
		return
	}
	for e := c.host.order.Front(); e != nil; {
		b := e.Value.(*hostBlock)
		if e = e.Next(); matches(b) {
			c.dropBlock(b)
		}
	}
}
