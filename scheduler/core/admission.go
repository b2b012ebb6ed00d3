package core

import "slices"

// source is where a sequence that is to hold target can get its beginning.
type source struct {
	// seq has the first length tokens now.
	seq    *sequence
	length int
	// parts of blocks in host memory go on from there.
	parts []part
	// donor is prefilling and will have the first share tokens. It stands instead
	// of seq, when that has so much less that waiting pays.
	donor *sequence
	share int
}

// present is the number of tokens that are in cells, or will be.
func (s source) present() int { return max(s.length, s.share) }

// saved is the number of tokens that need not be computed.
func (s source) saved() int {
	if n := len(s.parts); n > 0 {
		return s.parts[n-1].to
	}
	return s.present()
}

// find looks for the longest prefix of target over all sequences. The last
// token is never part of it: its logits are wanted. Only the first olders of the
// running sequences are waited for, so that no two wait for each other.
func (c *Core) find(target []Token, olders int) source {
	if c.cfg.NoReuse {
		return source{}
	}
	target = target[:len(target)-1]
	seq, length := c.tree.match(target, !c.cfg.PartialCopy, c.usable)
	src := source{seq: seq, length: length, parts: c.host.extend(target, length)}
	length = src.saved()
	for _, s := range c.running[:olders] {
		if s.base > 0 || !s.prefilling() {
			continue
		}
		share := commonPrefix(s.target, target)
		if share > s.length && share >= length+c.cfg.MinWait && share > src.share {
			src = source{donor: s, share: share}
		}
	}
	return src
}

func (c *Core) usable(s *sequence, n int) bool {
	return !s.broken && !c.planned(s) && c.cfg.Usable(s.id, n)
}

// planned says that the context can't be asked about s yet: it will be a copy once the
// operations of the plan are done.
func (c *Core) planned(s *sequence) bool {
	return c.asks && !c.delivered && slices.ContainsFunc(c.plan.Ops, func(o Op) bool { return o.Kind == OpCopy && o.Seq == s.id })
}

// admit starts what there is room for. It never passes over the job whose turn
// it is: a large one gets its room as the running ones end.
func (c *Core) admit() {
	for !c.hold || len(c.running) == 0 {
		j := c.turn()
		if j == nil || !c.start(j) && !c.startFirst(j) {
			return
		}
	}
}

// turn returns the job that may start a sequence next: in the order of arrival
// those that have not started and those with waiting candidates that run less
// than their share; when there is none of them, the first with waiting candidates.
// Where starting means to evict, closest chooses among those that have not started.
func (c *Core) turn() *job {
	busy, fresh := 0, 0
	for _, j := range c.jobs {
		if j.running > 0 {
			busy++
		} else if !j.started {
			fresh = 1
		}
	}
	share := max(1, c.width/max(1, busy+fresh))
	var first *job
	for _, j := range c.jobs {
		switch {
		case !j.started:
			return c.closest(j)
		case len(j.waiting) > 0 && j.running < share:
			return j
		case len(j.waiting) > 0 && first == nil:
			first = j
		}
	}
	return first
}

// closest returns the job, of first and the next few that have not started, of whose
// prompt most is there now, if the cells that are free don't suffice for first: agents
// ask again in the order in which they were answered, so that the next in line is
// always the one whose history was just evicted, while those of others are still
// there. Nobody is passed over more than maxPassed times.
func (c *Core) closest(first *job) *job {
	if c.cfg.Cells-c.tree.used >= len(first.Prompt)+first.reserve(0) || first.passed >= maxPassed {
		return first
	}
	if c.choice.job != nil && c.choice.changes == c.changes {
		return c.choice.job // nothing has happened that could change it
	}
	best, most, present, seen := first, -1, 0, 0
	for _, j := range c.jobs {
		if j.started {
			continue
		}
		if seen++; seen > lookAhead {
			break
		}
		src := c.find(j.Prompt, len(c.running))
		if saved := src.saved(); saved > most || saved == most && src.present() > present {
			best, most, present = j, saved, src.present()
		}
		if j.passed >= maxPassed {
			break
		}
	}
	c.choice.job, c.choice.changes = best, c.changes
	return best
}

// startFirst starts the job that closest preferred j to, if j does not fit yet.
func (c *Core) startFirst(j *job) bool {
	for _, first := range c.jobs {
		if !first.started {
			return first != j && j == c.choice.job && c.start(first)
		}
	}
	return false
}

// pass counts that j starts before those that came earlier.
func (c *Core) pass(j *job) {
	for _, earlier := range c.jobs {
		if earlier == j {
			return
		}
		if !earlier.started {
			earlier.passed++
		}
	}
}

// booked returns the sequences and the cells that the running ones may still
// need, reserved forks included.
func (c *Core) booked() (sequences, cells int) {
	for _, s := range c.running {
		sequences += 1 + s.extra
		cells += s.future()
	}
	return sequences, cells
}

// start gives j's prompt or its first waiting candidate a sequence, if there is
// an id and cells for all it may need, or with Config.Overcommit for what it
// usually does.
func (c *Core) start(j *job) bool {
	sequences, cells := c.booked()
	if sequences >= c.width {
		return false
	}
	cand, target, base := allCandidates, j.Prompt, 0
	var src source
	if j.sampled {
		cand = j.waiting[0]
		target, base, src = c.resume(j, cand)
	} else {
		src = c.find(target, len(c.running))
	}
	room := c.cfg.Cells - c.tree.active - cells
	room -= base + len(target) - src.present()
	if src.seq != nil {
		room -= c.tree.inactive(src.seq, src.length)
	}
	generated := 0
	if j.sampled {
		generated = len(j.cands[cand].tokens)
	}
	each := j.reserve(generated)
	if room < each {
		return false
	}
	s := c.takeID(src.seq, src.length)
	if s == nil {
		return false
	}
	c.run(s, j)
	s.cand, s.target, s.base = cand, target, base
	if j.sampled {
		j.waiting = j.waiting[1:]
	} else {
		j.started = true
		c.changes++
		c.pass(j)
		c.plan.Started = append(c.plan.Started, j.ID)
		s.extra = c.firstWave(j, sequences, room, each) - 1
	}
	c.begin(s, src)
	return true
}

// firstWave returns how many candidates of j start together: as many as there
// are ids and cells for, but half of them while other jobs wait to start.
func (c *Core) firstWave(j *job, sequences, room, each int) int {
	wave := c.width - sequences
	if each > 0 {
		wave = min(wave, room/each)
	}
	for _, other := range c.jobs {
		if other != j && !other.started {
			wave = (wave + 1) / 2
			break
		}
	}
	return min(j.N, max(1, wave))
}

// resume says what a waiting candidate has to decode and from where. A
// candidate with its first tokens forks from the prompt as the first wave did.
func (c *Core) resume(j *job, cand int) (target []Token, base int, src source) {
	tokens, prompt := j.cands[cand].tokens, len(j.Prompt)
	if t := j.trunk; len(tokens) == j.cands[cand].pending && t != nil && c.usable(t, prompt) && (c.cfg.PartialCopy || t.length == prompt) {
		return tokens, prompt, source{seq: t, length: prompt}
	}
	target = make([]Token, 0, prompt+len(tokens))
	target = append(append(target, j.Prompt...), tokens...)
	return target, 0, c.find(target, len(c.running))
}

// begin lets s, which just started or lost its donor, take what src has.
func (c *Core) begin(s *sequence, src source) {
	switch {
	case s == src.seq: // it is the cached sequence itself, for want of another id
		if s.length > src.length {
			c.save(s, src.length)
			c.op(Op{Kind: OpRemove, Seq: s.id, Pos: src.length})
			c.tree.deactivate(s)
			c.tree.trim(s, src.length)
			c.tree.activate(s)
		}
	case src.donor != nil:
		s.donor, s.share = src.donor, src.share
		return
	case src.seq != nil:
		c.copyPrefix(s, src.seq, src.length)
	}
	if len(src.parts) > 0 {
		c.load(s, src.parts)
	}
	c.reused(s)
}

// reused notes the tokens that s has without computing them. A prompt that was parked
// begins anew, with what is still there.
func (c *Core) reused(s *sequence) {
	if s.cand == allCandidates {
		s.job.cached = s.length
	}
}

// follow lets those that wait for a part of s's prefill that is there go on.
func (c *Core) follow(s *sequence) {
	for _, f := range c.running {
		if f.donor != s || s.length < f.share {
			continue
		}
		share := f.share
		f.donor, f.share = nil, 0
		if s.length > share && (!c.cfg.PartialCopy || !c.usable(s, share)) {
			f.orphan, c.overbooked = true, true // s jumped over the only points where it could be copied
			continue
		}
		c.copyPrefix(f, s, share)
		c.reused(f)
		c.follow(f)
	}
}

// adopt finds another way for those whose donor went, while what it had
// computed is still there.
func (c *Core) adopt() {
	for i, s := range c.running {
		if s.orphan {
			s.orphan = false
			c.begin(s, c.find(s.target, i))
			c.follow(s)
		}
	}
}
