package core

import "slices"

// state of a sequence id.
type state uint8

const (
	free    state = iota
	running       // it has tokens to be decoded
	cached        // kept for its prefix until the space is needed
	dying         // cancelled; the next plan removes it
)

// sequence is one sequence id of the context.
type sequence struct {
	id     SeqID
	state  state
	leaf   *node
	length int // tokens in the cache
	// touched: the context may hold cells for it.
	touched bool
	// kept is, between takeID and copyPrefix, how many positions the context still has
	// for it.
	kept int
	// broken: a step failed that was to extend it, it holds nobody knows what. Its
	// job has failed.
	broken bool
	// lastUse is the plan in which it was last of use, for LRU eviction.
	lastUse uint64
	// job is the last job it ran for, nil once that job has ended.
	job *job

	// What follows is of running sequences only.

	// target holds the tokens from position base on that it is to have decoded;
	// the logits of the last one are sampled.
	target []Token
	base   int
	// cand is the candidate it runs for; allCandidates while it prefills the prompt.
	cand int
	// extra is the number of forks that are reserved for it.
	extra int
	// donor is the sequence whose prefill it waits for, up to position share.
	donor *sequence
	share int
	// orphan: it lost its donor and must find another way.
	orphan bool
}

const allCandidates = -1

// feed returns the tokens still to be decoded.
func (s *sequence) feed() []Token { return s.target[s.length-s.base:] }

// pending is len(feed()).
func (s *sequence) pending() int { return s.base + len(s.target) - s.length }

// prefilling says that more than the last token is to be decoded, and that it is
// not the next few tokens of a candidate, which were forced.
func (s *sequence) prefilling() bool { return s.base == 0 && s.pending() > 1 }

// future is the most cells that the sequence and its reserved forks may still need.
func (s *sequence) future() int {
	pending := s.pending()
	if s.donor != nil {
		pending = s.base + len(s.target) - max(s.length, s.share)
	}
	generated := 0
	if s.cand != allCandidates {
		generated = len(s.job.cands[s.cand].tokens)
	}
	// The last token of a candidate is chosen, never decoded.
	return pending + (1+s.extra)*s.job.reserve(generated)
}

// needed says that candidates of its job wait to fork from it.
func (s *sequence) needed() bool {
	return s.job != nil && s.job.trunk == s && len(s.job.waiting) > 0
}

// run makes the free or cached sequence s run for j.
func (c *Core) run(s *sequence, j *job) {
	if s.job != j {
		c.disown(s)
	}
	c.tree.activate(s)
	s.state, s.job, s.lastUse = running, j, c.tick
	j.running++
	c.running = append(c.running, s)
}

// halt takes s out of the running sequences and leaves it in state next. Who
// waits for its prefill finds another way in the next plan.
func (c *Core) halt(s *sequence, next state) {
	c.changes++
	c.tree.deactivate(s)
	s.job.running--
	i := slices.Index(c.running, s)
	c.running = slices.Delete(c.running, i, i+1)
	for _, f := range c.running {
		if f.donor == s {
			f.donor, f.share, f.orphan, c.overbooked = nil, 0, true, true
		}
	}
	s.state, s.lastUse = next, c.tick
	s.target, s.base, s.cand, s.extra, s.donor, s.share, s.orphan = nil, 0, 0, 0, nil, 0, false
}

// release frees a sequence that does not run, and its id.
func (c *Core) release(s *sequence) { c.vacate(s, 0) }

// vacate frees s, but leaves its first kept positions in the context.
func (c *Core) vacate(s *sequence, kept int) {
	c.changes++
	if s.touched && (kept == 0 || kept < s.length) {
		c.op(Op{Kind: OpRemove, Seq: s.id, Pos: kept})
	}
	c.disown(s)
	c.tree.detach(s)
	*s = sequence{id: s.id, leaf: &c.tree.root, touched: kept > 0, kept: kept}
	c.free = append(c.free, s)
}

// disown ends what s was for its job.
func (c *Core) disown(s *sequence) {
	if s.job != nil && s.job.trunk == s {
		s.job.trunk = nil
	}
	s.job = nil
}

// takeID returns a free sequence, evicting a cached one other than src for its
// id. Without another choice it takes src itself, if that is only cached. The
// sequence is not empty in that case. nil: none can be had. With a src, it must
// become a copy of src's first n tokens next.
func (c *Core) takeID(src *sequence, n int) *sequence {
	if len(c.free) == 0 {
		if victim := c.victim(src, false); victim != nil {
			c.evict(victim, c.keeps(victim, src, n))
		}
	}
	if n := len(c.free); n > 0 {
		s := c.free[n-1]
		c.free = c.free[:n-1]
		return s
	}
	if src != nil && src.state == cached {
		return src
	}
	return nil
}

// keeps returns how many cells victim has in common with a copy of src's first n tokens.
// They are neither removed nor copied: llama.cpp notes each position of each sequence, so
// that either takes as long as there are tokens, for each candidate of a prompt.
func (c *Core) keeps(victim, src *sequence, n int) int {
	if src == nil || !c.cfg.PartialCopy || c.asks {
		return 0
	}
	return min(n, shared(victim, src))
}

// makeRoom evicts until n cells are free, and says whether they are. Of the last
// one only the end goes: the rest is still the beginning of what may come.
func (c *Core) makeRoom(n int) bool {
	for {
		short := n - (c.cfg.Cells - c.tree.used)
		if short <= 0 {
			return true
		}
		victim := c.victim(nil, true)
		if victim == nil {
			return false
		}
		c.cut(victim, short)
	}
}

// cut evicts about so many cells of a cached sequence.
func (c *Core) cut(victim *sequence, cells int) {
	cells = max(cells, c.cfg.EvictLeast)
	if c.cfg.PartialCopy && !c.cfg.NoReuse && victim.own() > cells+c.leastLeft() && c.usable(victim, victim.length-cells) {
		c.shorten(victim, victim.length-cells)
	} else {
		c.evict(victim, 0)
	}
}

// leastLeft is how many cells must be left where only the end of a sequence goes: what
// is left goes next, and what is too short to be saved then would take the way to all that
// was saved behind it.
func (c *Core) leastLeft() int {
	if c.host == nil {
		return 0
	}
	return c.host.least
}

// own counts the cells at the end of s that no other sequence uses.
func (s *sequence) own() int {
	cells := 0
	for n := s.leaf; n.private(); n = n.parent {
		cells += len(n.tokens)
	}
	return cells
}

// shorten evicts the positions from length on of a cached sequence.
func (c *Core) shorten(s *sequence, length int) {
	c.save(s, length)
	c.stats.Shortened++
	c.stats.EvictedCells += uint64(s.length - length)
	c.changes++
	c.op(Op{Kind: OpRemove, Seq: s.id, Pos: length})
	c.disown(s) // it may have held the whole prompt
	c.tree.trim(s, length)
}

// evict frees a cached sequence, but for its first kept positions, see vacate.
func (c *Core) evict(s *sequence, kept int) {
	c.save(s, s.length-s.own())
	c.stats.Evicted++
	used := c.tree.used
	c.vacate(s, kept)
	c.stats.EvictedCells += uint64(used - c.tree.used)
}

// victim picks the cached sequence to evict: one that no waiting candidate needs
// before one that does, then the least recently used. For cells it must have
// some of its own. For an id, one whose tokens another sequence has as well costs
// nothing, so it goes first.
func (c *Core) victim(keep *sequence, cells bool) *sequence {
	var best *sequence
	for i := range c.seqs {
		s := &c.seqs[i]
		if s == keep || s.state != cached || cells && !s.leaf.private() {
			continue
		}
		if best == nil || c.rather(s, best, cells) {
			best = s
		}
	}
	return best
}

// rather says that a should be evicted before b.
func (c *Core) rather(a, b *sequence, cells bool) bool {
	if a.needed() != b.needed() {
		return b.needed()
	}
	if !cells && c.cfg.PartialCopy && a.leaf.private() != b.leaf.private() {
		return b.leaf.private()
	}
	return a.lastUse < b.lastUse
}
