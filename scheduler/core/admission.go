package core

import "slices"

// admit starts requests in order, as long as they fit. For a higher priority it preempts running sequences. A request
// that does not fit blocks those after it, so that a large one gets cells as running sequences end.
func (c *Core) admit() {
	c.sortClasses()
	if len(c.groups) > 0 && c.groups[0].Adapter != c.turn.adapter {
		c.chooseAdapter()
	}
	for ; ; c.sortClasses() {
		g, low := c.nextGroup(), c.lowest()
		makesWay := g != nil && low != nil && low.group.level < g.Priority
		switch {
		case g == nil, c.admissionPaused && low != nil && !makesWay:
			return
		case c.startSequence(g) || c.startOldest(g):
		case makesWay:
			c.preempt(low, true)
		default:
			return
		}
	}
}

// nextGroup returns the request that may start a sequence next, from the first priority that has one. Candidates for
// this are, in order, requests that have not started, and requests with waiting candidates that run fewer than their
// share. Without any, it is the first request with waiting candidates. If a start needs eviction, preferCached chooses
// among the requests that have not started.
func (c *Core) nextGroup() *group {
	next := c.firstStartable()
	waits := func(g *group) bool { return g.started && len(g.waiting) > 0 && g.Adapter == c.turn.adapter }
	var first *group // that could start one
	busy, waiting := 0, 0
	for _, g := range c.groups {
		if first == nil && (g == next || waits(g)) {
			first = g
		}
		switch {
		case first != nil && g.Priority != first.Priority:
		case g.running > 0:
			busy++
		case g == next:
			waiting = 1
		}
	}
	share := max(1, c.maxRunning/max(1, busy+waiting))
	for _, g := range c.groups {
		switch {
		case first == nil:
			return nil
		case g.Priority != first.Priority:
		case g == next:
			return c.preferCached(g)
		case waits(g) && g.running < share:
			return g
		}
	}
	return first
}

// preferCached returns the request with the longest cached prefix, of first and the next lookAhead that have not
// started, if the free cells do not suffice for first. Agents ask again in the order in which they were answered. So
// the first in the queue tends to be the one whose history was just evicted, while other histories are still cached. No
// request is passed over more than maxPassed times.
func (c *Core) preferCached(first *group) *group {
	if c.cfg.Cells-c.tree.used >= len(first.Prompt)+first.reserve(0) || first.passed >= maxPassed {
		return first
	}
	if c.choice.group != nil && c.choice.version == c.version {
		return c.choice.group
	}
	best, most, mostInCells, seen := first, -1, 0, 0
	for g := range c.startable {
		if seen++; seen > lookAhead || g.Priority != first.Priority {
			break
		}
		src := c.matchPrefix(g.owner(), g.reusable(), len(c.running))
		if cached := src.cached(); cached > most || cached == most && src.inCells() > mostInCells {
			best, most, mostInCells = g, cached, src.inCells()
		}
		if g.passed >= maxPassed {
			break
		}
	}
	c.choice.group, c.choice.version = best, c.version
	return best
}

// startOldest starts the oldest request if preferCached chose g instead and g does not fit.
func (c *Core) startOldest(g *group) bool {
	first := c.firstStartable()
	return first != nil && first != g && !g.started && g == c.choice.group && c.startSequence(first)
}

// startSequence starts a sequence for the prompt of g or for its first waiting candidate. It returns false without a
// free id, or without cells for the most that the sequence may need (with Config.Overcommit, for what it usually
// needs).
func (c *Core) startSequence(g *group) bool {
	sequences, cells := 0, 0 // that the running ones may still need, including reserved forks
	for _, s := range c.running {
		sequences += 1 + s.reservedForks
		cells += s.maxFutureCells()
	}
	if sequences >= c.maxRunning {
		return false
	}
	cand, target, base, generated := promptOnly, g.Prompt, 0, 0
	var src prefixMatch
	if g.sampled {
		cand = g.waiting[0]
		generated = len(g.candidates[cand].tokens)
		target, base, src = c.resumePoint(g, cand)
	} else {
		src = c.matchPrefix(g.owner(), g.reusable(), len(c.running))
	}
	room := c.cfg.Cells - c.tree.active - cells - (base + len(target) - src.inCells())
	if src.seq != nil {
		room -= c.tree.inactive(src.seq, src.length)
	}
	each := g.reserve(generated)
	if room < each {
		return false
	}
	s := c.allocate(src.seq, src.length, g)
	if s == nil {
		return false
	}
	s.cand, s.target, s.base = cand, target, base
	c.setLevel(g)
	if g.sampled {
		g.waiting = g.waiting[1:]
	} else if g.N > 1 {
		s.reservedForks = c.firstWave(g, sequences, room, each) - 1
	}
	if !g.started {
		g.started = true
		c.version++
		c.plan.Started = append(c.plan.Started, g.ID)
		for _, earlier := range c.groups[:slices.Index(c.groups, g)] {
			if !earlier.started && earlier.Adapter == g.Adapter {
				earlier.passed++
			}
		}
	}
	c.attachPrefix(s, src)
	return true
}

// firstWave returns how many candidates of g start together: as many as there are ids and
// cells for, and half of that while other requests of its priority wait to start.
func (c *Core) firstWave(g *group, sequences, room, each int) int {
	wave := c.maxRunning - sequences
	if each > 0 {
		wave = min(wave, room/each)
	}
	for other := range c.startable {
		if other != g && other.Priority == g.Priority {
			wave = (wave + 1) / 2
			break
		}
	}
	return min(g.N, max(1, wave))
}

// resumePoint returns the tokens that a waiting candidate has to decode, their position base, and the prefix to start
// from. A candidate with only its first tokens forks from the prompt, like the first wave.
func (c *Core) resumePoint(g *group, cand int) (target []Token, base int, src prefixMatch) {
	tokens, prompt := g.candidates[cand].tokens, len(g.Prompt)
	if t := g.promptSeq; len(tokens) == g.candidates[cand].pending && t != nil && c.usable(t, prompt) && (c.cfg.PartialCopy || t.length == prompt) {
		return tokens, prompt, prefixMatch{seq: t, length: prompt}
	}
	target = make([]Token, 0, prompt+len(tokens))
	target = append(append(target, g.Prompt...), tokens...)
	return target, 0, c.matchPrefix(g.owner(), target, len(c.running))
}

// lengthEstimate is the moving average of completion lengths.
type lengthEstimate struct {
	enabled bool // Config.Overcommit
	mean    float64
	count   int
}

func (l *lengthEstimate) add(tokens int) {
	l.count++
	l.mean += (float64(tokens) - l.mean) / float64(min(l.count, lengthMemory))
}

// reserve returns the cells to reserve for a candidate that has generated tokens. The last
// token of a candidate is chosen, never decoded.
func (g *group) reserve(generated int) int {
	worst := max(0, g.MaxTokens-generated-1)
	if !g.lengths.enabled || g.lengths.count < lengthMemory {
		return worst
	}
	usual := int(lengthFactor*g.lengths.mean) - generated
	return min(worst, max(usual, minReserve))
}
