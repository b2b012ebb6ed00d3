package core

import "slices"

// state of a sequence id. Package doc shows the transitions.
type state uint8

const (
	seqFree    state = iota
	seqRunning       // has tokens to decode
	seqCached        // kept for its prefix until its cells or its id are needed
	seqFreeing       // ended early; the next plan frees it
)

// owner is the adapter that computed cells, and a salt. Only requests with the same owner may use the cells.
type owner struct {
	adapter AdapterID
	salt    string
}

func (r *Request) owner() owner { return owner{r.Adapter, r.Salt} }

// sequence is one sequence id of the context.
type sequence struct {
	id     SeqID
	state  state
	leaf   *node
	length int // tokens in the KV cache
	// inContext: the context may have cells of it.
	inContext bool
	// keptPrefix is, between allocate and attachPrefix, the number of its positions that the context still has.
	keptPrefix int
	// invalid: a step that extended it failed, so its contents are undefined.
	invalid bool
	// lastUse is the last step that used it, for LRU eviction. That of an ended fork is 0 until another
	// sequence copies it: searches leave many forks, which must not displace other prefixes.
	lastUse uint64
	// group is the last request it ran for, nil once that has ended.
	group *group
	owner // of the cells

	// The following fields are of running sequences only.

	// target holds the tokens to decode, from position base on. The logits of the last one
	// are sampled.
	target []Token
	base   int
	// cand is the candidate it runs for, or promptOnly during the prefill of the prompt.
	cand int
	// reservedForks is the number of forks for which cells are reserved.
	reservedForks int
	// leader is the sequence for whose prefill it waits, up to position sharedLen.
	leader    *sequence
	sharedLen int
	// needsRematch: it lost its leader and needs another prefix.
	needsRematch bool
	// granted is the number of rows that its prompt gets in this step, see schedulePrefills, and chunk the
	// most that it can use.
	granted, chunk int
}

const promptOnly = -1

// remaining returns the tokens still to decode.
func (s *sequence) remaining() []Token { return s.target[s.length-s.base:] }

// numRemaining is len(remaining()).
func (s *sequence) numRemaining() int { return s.base + len(s.target) - s.length }

// reusable returns the part of the target whose cells may come from another sequence, and one token more. Tokens
// whose logits are needed must be computed.
func (s *sequence) reusable() []Token {
	if s.cand == promptOnly {
		return s.group.reusable()
	}
	return s.target
}

func (g *group) reusable() []Token {
	if g.ScoreFrom > 0 {
		return g.Prompt[:min(g.ScoreFrom, len(g.Prompt))]
	}
	return g.Prompt
}

// inPrefill reports whether a prompt has more than one token left to decode. It is false for a
// candidate with forced tokens.
func (s *sequence) inPrefill() bool { return s.base == 0 && s.numRemaining() > 1 }

// maxFutureCells returns the most cells that the sequence and its reserved forks may still
// need.
func (s *sequence) maxFutureCells() int {
	remaining := s.numRemaining()
	if s.leader != nil {
		remaining = s.base + len(s.target) - max(s.length, s.sharedLen)
	}
	generated := 0
	if s.cand != promptOnly {
		generated = len(s.group.candidates[s.cand].tokens)
	}
	return remaining + (1+s.reservedForks)*s.group.reserve(generated)
}

// isForkSource reports whether candidates of its request wait to fork from it.
func (s *sequence) isForkSource() bool {
	return s.group != nil && s.group.promptSeq == s && len(s.group.waiting) > 0
}

// privateCells counts the cells at its end that no other sequence uses.
func (s *sequence) privateCells() int {
	cells := 0
	for n := s.leaf; n.private(); n = n.parent {
		cells += len(n.tokens)
	}
	return cells
}

// allocate returns a sequence that runs for g; if g is nil, one that does not run. Without a free id it evicts a cached
// sequence, as the last choice src itself: the result is then not empty. It returns nil if no id is available. If src
// is not nil, the caller must attach its first n tokens by attachPrefix next.
func (c *Core) allocate(src *sequence, n int, g *group) *sequence {
	if len(c.freeSeqs) == 0 {
		if victim := c.victim(src, false); victim != nil {
			kept := 0 // cells in common stay: llama.cpp removes and copies each token
			if src != nil && c.cfg.PartialCopy && c.cfg.Usable == nil {
				kept = min(n, sharedCells(victim, src))
			}
			c.evict(victim, kept)
		}
	}
	s := src
	if last := len(c.freeSeqs) - 1; last >= 0 {
		s, c.freeSeqs = c.freeSeqs[last], c.freeSeqs[:last]
	} else if src == nil || src.state != seqCached {
		return nil
	}
	if g == nil {
		return s
	}
	if s.group != g {
		c.detach(s)
	}
	c.tree.activate(s)
	s.state, s.group, s.owner, s.lastUse = seqRunning, g, g.owner(), c.step
	g.running++
	c.running = append(c.running, s)
	return s
}

// stop moves a sequence from running to another state. Sequences that wait for its prefill get another prefix in the
// next plan. It is freed instead of cached if another cached sequence has the same tokens in other cells.
func (c *Core) stop(s *sequence, next state) {
	g := s.group
	var twin *sequence
	if next == seqCached && !s.isForkSource() {
		c.scratch = append(c.scratch[:0], g.Prompt...)
		if s.cand != promptOnly {
			c.scratch = append(c.scratch, g.candidates[s.cand].tokens...)
		}
		usable := func(t *sequence, _ int) bool { return t.owner == s.owner && isCached(t) }
		if same, n := c.tree.root.match(c.scratch[:s.length], !c.cfg.PartialCopy, usable); n == s.length {
			twin = same
		}
	}
	c.version++
	c.tree.deactivate(s)
	g.running--
	i := slices.Index(c.running, s)
	c.running = slices.Delete(c.running, i, i+1)
	for _, f := range c.running {
		if f.leader == s {
			f.leader, f.sharedLen, f.needsRematch, c.overcommitted = nil, 0, true, true
		}
	}
	s.state, s.lastUse = next, c.step
	if g.Fork {
		s.lastUse = 0
	}
	s.target, s.base, s.cand, s.reservedForks, s.leader, s.sharedLen, s.needsRematch = nil, 0, 0, 0, nil, 0, false
	if twin != nil {
		twin.lastUse = c.step
		c.freeSeq(s)
	}
}

// freeSeq frees a sequence that does not run, and its id.
func (c *Core) freeSeq(s *sequence) { c.freeTail(s, 0) }

// freeTail frees a sequence, and leaves its first kept positions in the context for its next use.
func (c *Core) freeTail(s *sequence, kept int) {
	c.version++
	if s.inContext && (kept == 0 || kept < s.length) {
		c.addOp(Op{Kind: OpRemove, Seq: s.id, Pos: kept})
	}
	c.detach(s)
	c.tree.detach(s)
	*s = sequence{id: s.id, leaf: &c.tree.root, inContext: kept > 0, keptPrefix: kept}
	c.freeSeqs = append(c.freeSeqs, s)
}

// detach removes the references between a sequence and its request.
func (c *Core) detach(s *sequence) {
	if s.group != nil && s.group.promptSeq == s {
		s.group.promptSeq = nil
	}
	s.group = nil
}
