package core

import "slices"

// prefixMatch is the source of a prefix of a sequence's target tokens.
type prefixMatch struct {
	// seq holds the first length tokens.
	seq    *sequence
	length int
	// parts of host blocks hold the tokens after these.
	parts []hostPart
	// leader is in prefill and will hold the first sharedLen tokens. It replaces seq if that saves
	// at least tuning.minShared tokens.
	leader    *sequence
	sharedLen int
}

// inCells returns the number of tokens that are in the cells of seq, or will be in the leader's.
func (m prefixMatch) inCells() int { return max(m.length, m.sharedLen) }

// cached returns the number of tokens that need not be computed.
func (m prefixMatch) cached() int {
	if n := len(m.parts); n > 0 {
		return m.parts[n-1].to
	}
	return m.inCells()
}

// matchPrefix returns the longest cached prefix of target in all sequences of the owner, without target's last token,
// whose logits are needed. Only the first older running sequences can be leaders, so that no two sequences wait for
// each other.
func (c *Core) matchPrefix(of owner, target []Token, older int) prefixMatch {
	if c.cfg.NoPrefixCache {
		return prefixMatch{}
	}
	target = target[:len(target)-1]
	usable := func(s *sequence, n int) bool { return s.owner == of && c.usable(s, n) }
	seq, length := c.tree.root.match(target, !c.cfg.PartialCopy, usable)
	src := prefixMatch{seq: seq, length: length}
	if c.host != nil {
		src.parts = c.host.extend(of, target, length)
	}
	length = src.cached()
	for _, s := range c.running[:older] {
		if s.base > 0 || !s.inPrefill() || s.owner != of {
			continue
		}
		share := commonPrefixLen(s.target, target)
		if share > s.length && share >= length+c.tune.minShared && share > src.sharedLen {
			src = prefixMatch{leader: s, sharedLen: share}
		}
	}
	return src
}

// usable reports whether the first n tokens of s can be continued. With Config.Usable it is false for a sequence that
// an operation of this plan copies, since the context does not have it yet.
func (c *Core) usable(s *sequence, n int) bool {
	if s.invalid || c.cfg.Usable == nil {
		return !s.invalid
	}
	copied := func(o Op) bool { return o.Kind == OpCopy && o.Seq == s.id }
	return (c.opsDelivered || !slices.ContainsFunc(c.plan.Ops, copied)) && c.cfg.Usable(s.id, n)
}

// attachPrefix makes s begin with a prefix. s is empty, or allocate returned it for this prefix.
func (c *Core) attachPrefix(s *sequence, src prefixMatch) {
	switch {
	case s == src.seq: // allocate had no other id
		if s.length > src.length {
			c.saveToHost(s, src.length)
			c.addOp(Op{Kind: OpRemove, Seq: s.id, Pos: src.length})
			c.tree.deactivate(s)
			c.tree.share(s, s, src.length)
		}
	case src.leader != nil:
		s.leader, s.sharedLen = src.leader, src.sharedLen
		return
	case src.seq != nil:
		if s.keptPrefix < src.length {
			c.addOp(Op{Kind: OpCopy, Seq: s.id, Src: src.seq.id, Pos: s.keptPrefix, End: src.length})
		}
		c.tree.share(s, src.seq, src.length)
		s.keptPrefix, s.inContext, src.seq.lastUse = 0, true, c.step
	}
	if len(src.parts) > 0 {
		c.loadFromHost(s, src.parts)
	}
	if s.cand == promptOnly { // a preempted prompt starts again with what is still cached
		s.group.cached = s.length
	}
}

// advanceFollowers lets the sequences continue that wait for a part of the prefill of s which is now decoded.
func (c *Core) advanceFollowers(s *sequence) {
	for _, f := range c.running {
		if f.leader != s || s.length < f.sharedLen {
			continue
		}
		share := f.sharedLen
		f.leader, f.sharedLen = nil, 0
		if s.length > share && (!c.cfg.PartialCopy || !c.usable(s, share)) {
			f.needsRematch, c.overcommitted = true, true // s can no longer be copied at that length
			continue
		}
		c.attachPrefix(f, prefixMatch{seq: s, length: share})
		c.advanceFollowers(f)
	}
}

func isCached(s *sequence) bool { return s.state == seqCached && !s.invalid }

// snapshot caches a copy of s one token before the end of its prompt, in a context that can copy whole sequences only.
// The same prompt and its continuations can both start from it.
func (c *Core) snapshot(s *sequence) {
	if s.cand != promptOnly || s.numRemaining() != 1 || s.length == 0 || slices.ContainsFunc(s.leaf.ends, isCached) {
		return
	}
	if len(c.freeSeqs) == 0 {
		if v := c.victim(nil, false); v == nil || v.isForkSource() {
			return
		}
	}
	d := c.allocate(s, s.length, nil)
	c.attachPrefix(d, prefixMatch{seq: s, length: s.length})
	d.state, d.owner, d.lastUse = seqCached, s.owner, c.step
}
