package core

// Commit takes the result of the step in flight; choices answer plan.Samples in
// their order (none unless Decoded). The events are valid until the next Commit.
func (c *Core) Commit(result Result, choices []Choice) []Event {
	if !c.inFlight {
		panic("core: Commit without a Plan")
	}
	if result == Decoded && len(choices) != len(c.plan.Samples) {
		panic("core: Commit needs one choice for each sample")
	}
	c.inFlight = false
	c.freshPlan()
	c.events = c.events[:0]
	switch result {
	case NoSlot:
		c.noSlot()
	case Broken:
		c.stats.Broken++
		for _, f := range c.fed {
			f.seq.broken = true
			if f.seq.state == running {
				c.fail(f.seq.job, Broken)
			}
		}
	default:
		c.decoded(choices)
	}
	c.check()
	return c.events
}

func (c *Core) decoded(choices []Choice) {
	c.limit = min(2*c.limit, c.cfg.BatchTokens)
	c.stats.Steps++
	c.stats.Rows += uint64(len(c.plan.Rows))
	c.worth.computed(len(c.plan.Rows))
	for _, f := range c.fed {
		c.stats.PrefillTokens += uint64(f.prefill)
		c.tree.extend(f.seq, f.tokens, firstTokens)
		if f.seq.state != running && len(f.drafts) > 0 {
			c.tree.extend(f.seq, f.drafts, 0) // cancelled: it holds them until the next plan
		}
		if f.seq.state == running {
			c.follow(f.seq)
			c.snapshot(f.seq)
		}
	}
	for _, f := range c.fed {
		if f.samples > 0 && f.seq.state == running {
			c.sampled(f, choices[:f.samples])
		}
		choices = choices[f.samples:]
	}
}

// sampled gives the candidates that a sequence runs for their next tokens.
func (c *Core) sampled(f fed, choices []Choice) {
	s, j := f.seq, f.seq.job
	if s.cand != allCandidates {
		more := c.accept(j, s.cand, choices[0])
		chosen := j.cands[s.cand].tokens
		c.settle(f, chosen[len(chosen)-j.cands[s.cand].pending:], more)
		if more {
			c.next(s, s.cand)
			return
		}
		s.broken = choices[0].Spoilt
		c.retire(s)
		c.finish(j)
		return
	}
	j.sampled, j.trunk = true, s
	c.stats.CachedTokens += uint64(j.cached)
	forks := s.extra
	s.extra = 0
	taken := false
	for i, choice := range choices {
		switch {
		case !c.accept(j, i, choice):
		case !taken:
			taken = true
			c.next(s, i)
		case forks > 0 && c.fork(s, i):
			forks--
		default:
			j.waiting = append(j.waiting, i)
		}
	}
	if !taken {
		s.broken = choices[0].Spoilt
		c.retire(s)
	}
	c.finish(j)
}

// accept adds a choice to a candidate and says whether it goes on.
func (c *Core) accept(j *job, i int, choice Choice) bool {
	cand := &j.cands[i]
	finish, repeated := c.add(j, cand, choice)
	if finish == 0 {
		return true
	}
	cand.ended = true
	c.lengths.add(len(cand.tokens))
	c.worth.generated(len(cand.tokens))
	j.left--
	c.stats.Finished++
	if finish == FinishRepeat {
		c.stats.Repeated++
	}
	c.hold = false
	c.events = append(c.events, Event{
		Kind: CandidateFinished, Job: j.ID, Candidate: i, Finish: finish, Tokens: cand.tokens, Repeated: repeated, Cached: j.cached,
	})
	return false
}

// add appends the tokens of a choice to a candidate and says how that ended it, if
// it did, and how many tokens came several times in a row if that was why. An answer
// that is complete with its last sampled token is neither cut off nor a repetition. One
// that repeats itself ends with the token that shows it, whatever was chosen with it.
func (c *Core) add(j *job, cand *candidate, choice Choice) (finish Finish, again int) {
	if len(choice.Tokens) == 0 && choice.Verdict == Continue {
		panic("core: a candidate that goes on needs a token")
	}
	if cand.tokens == nil && len(choice.Tokens) > 0 {
		cand.tokens = make([]Token, 0, min(j.MaxNew, firstTokens))
	}
	before, forced := len(cand.tokens), choice.Forced
	complete := choice.Verdict == Complete && len(choice.Tokens) <= j.MaxNew-before
	for i, t := range choice.Tokens[:min(len(choice.Tokens), j.MaxNew-before)] {
		if len(forced) > 0 && forced[0] == i {
			forced = forced[1:]
			c.stats.ForcedTokens++
		} else {
			cand.sampled = [repeatTimes]int(append(cand.sampled[1:], len(cand.tokens)+1))
		}
		cand.tokens = append(cand.tokens, t)
		ends := complete && i+1+len(forced) == len(choice.Tokens) // nothing is sampled behind it
		if j.RepeatLeast > 0 && !ends {
			if again = cand.repeated(j.RepeatLeast); again > 0 {
				break
			}
		}
	}
	cand.pending = len(cand.tokens) - before
	dropped := len(choice.Tokens) - cand.pending
	c.stats.GeneratedTokens += uint64(cand.pending)
	switch {
	case again > 0, choice.Verdict == Repeat && dropped == 0:
		return FinishRepeat, again
	case choice.Verdict == Fail:
		return FinishError, 0
	case choice.Verdict == Complete && dropped == 0:
		return FinishStop, 0
	case len(cand.tokens) == j.MaxNew:
		return FinishLength, 0
	case choice.Verdict == Stop:
		return FinishStop, 0
	}
	return 0, 0
}

// next lets s go on with the last tokens of candidate i.
func (c *Core) next(s *sequence, i int) {
	cand := &s.job.cands[i]
	s.cand, s.target, s.base = i, cand.tokens[len(cand.tokens)-cand.pending:], s.length
}

// fork gives candidate i a copy of s, which ends with the prompt.
func (c *Core) fork(s *sequence, i int) bool {
	f := c.takeID(s, s.length)
	if f == nil {
		return false
	}
	c.stats.Forked++
	c.run(f, s.job)
	c.copyPrefix(f, s, s.length)
	c.next(f, i)
	return true
}

// retire ends the running of s and keeps it for its prefix, unless another
// cached sequence holds the same tokens in cells of its own.
func (c *Core) retire(s *sequence) {
	j, cand := s.job, s.cand
	if cand == allCandidates {
		c.halt(s, cached)
		return
	}
	c.scratch = append(append(c.scratch[:0], j.Prompt...), j.cands[cand].tokens...)[:s.length]
	twin, n := c.tree.match(c.scratch, !c.cfg.PartialCopy, c.isCached)
	c.halt(s, cached)
	if twin != nil && n == s.length && !s.needed() {
		twin.lastUse = c.tick
		c.release(s)
	}
}

func (c *Core) isCached(s *sequence, _ int) bool { return s.state == cached && !s.broken }

// snapshot keeps the state one token before the end of a prompt, where only the
// end of a sequence can be copied: the same prompt again and the one that
// continues it both can start there.
func (c *Core) snapshot(s *sequence) {
	if c.cfg.PartialCopy || c.cfg.NoReuse || s.cand != allCandidates || s.pending() != 1 || s.length == 0 {
		return
	}
	if firstUsable(s.leaf.ends, s.length, c.isCached) != nil {
		return
	}
	if len(c.free) == 0 {
		if v := c.victim(nil, false); v == nil || v.needed() {
			return
		}
	}
	d := c.takeID(s, s.length)
	c.copyPrefix(d, s, s.length)
	d.state, d.lastUse = cached, c.tick
}

// finish ends j if all its candidates have ended.
func (c *Core) finish(j *job) {
	if j.left > 0 {
		return
	}
	c.events = append(c.events, Event{Kind: JobFinished, Job: j.ID, Cached: j.cached})
	c.remove(j)
}

// fail ends j, whatever its candidates were doing.
func (c *Core) fail(j *job, why Result) {
	c.stats.Failed++
	c.events = append(c.events, Event{Kind: JobFailed, Job: j.ID, Cached: j.cached, Result: why})
	c.abandon(j)
}

// noSlot makes the next step need less. Each way can be taken only so often
// without a step in between that succeeds, and the last one ends a job, so this
// can't go on for ever.
func (c *Core) noSlot() {
	c.stats.NoSlot++
	drafts := 0
	for _, f := range c.fed {
		drafts += len(f.drafts)
	}
	switch victim := c.victim(nil, true); {
	case drafts > 0:
		c.limit = len(c.plan.Rows) - drafts // that leaves no room for any
	case victim != nil:
		c.evict(victim, 0)
	case len(c.plan.Rows) > 1:
		c.limit = len(c.plan.Rows) / 2
	case len(c.running) > 1:
		c.parkYoungest()
	case len(c.running) == 1:
		c.fail(c.running[0].job, NoSlot)
	}
}
