package core

import "agentd/scheduler/generation"

// Commit ends the step in flight with its status. choices has one for each of plan.Samples, in order, and is
// empty unless the step was decoded. The returned events are valid until the next Commit.
func (c *Core) Commit(status StepStatus, choices []Choice) []Event {
	if !c.inFlight {
		panic("core: Commit without a Plan")
	}
	if status == StepDecoded && len(choices) != len(c.plan.Samples) {
		panic("core: Commit needs one choice for each sample")
	}
	c.inFlight = false
	c.dropDeliveredOps()
	c.events = c.events[:0]
	switch status {
	case StepNoSlot:
		c.handleNoSlot()
	case StepFailed:
		c.stats.FailedSteps++
		for _, f := range c.scheduled {
			f.seq.invalid = true
			if f.seq.state == seqRunning {
				c.failGroup(f.seq.group, StepFailed)
			}
		}
	default:
		c.rowLimit = min(2*c.rowLimit, c.cfg.BatchTokens)
		c.stats.Steps++
		c.stats.Rows += uint64(len(c.plan.Rows))
		for _, f := range c.scheduled {
			c.stats.PrefillTokens += uint64(f.prefill)
			c.tree.extend(f.seq, f.tokens, initialTokens)
			switch {
			case f.seq.state == seqRunning:
				if g := f.seq.group; f.seq.cand == promptOnly && g.ScoreFrom > 0 {
					g.ScoreFrom = max(g.ScoreFrom, f.seq.length+1) // if it starts again
				}
				c.advanceFollowers(f.seq)
				if !c.cfg.PartialCopy && !c.cfg.NoPrefixCache {
					c.snapshot(f.seq)
				}
			case len(f.drafts) > 0:
				c.tree.extend(f.seq, f.drafts, 0) // cancelled: the context holds them until the next plan
			}
		}
		for _, f := range c.scheduled {
			if g := f.seq.group; f.seq.state == seqRunning && f.samples > 0 {
				c.commitSamples(f, choices[:f.samples])
				if g.unfinished == 0 {
					c.events = append(c.events, Event{Kind: RequestFinished, Request: g.ID, Cached: g.cached})
					c.end(g, false)
				}
			}
			choices = choices[f.samples:]
		}
	}
	c.check()
	return c.events
}

// commitSamples appends the next tokens to the candidates of a sequence. After a prompt, the first candidate that
// continues keeps the sequence, others fork as far as ids and cells suffice, and the rest wait.
func (c *Core) commitSamples(f scheduledRows, choices []Choice) {
	s, g := f.seq, f.seq.group
	first, forks, taken := s.cand, s.reservedForks, false
	if s.cand == promptOnly {
		first, s.reservedForks, g.sampled, g.promptSeq = 0, 0, true, s
		if !g.Fork {
			c.stats.QueriedTokens += uint64(len(g.Prompt))
			c.stats.CachedTokens += uint64(g.cached)
		}
	}
	for i, choice := range choices {
		i += first
		cand := &g.candidates[i]
		finish, repeat := c.appendChoice(g, cand, choice)
		c.acceptDrafts(f, cand.tokens[len(cand.tokens)-cand.pending:], finish == "")
		switch {
		case finish != "":
			cand.ended = true
			g.unfinished--
			c.admissionPaused = false
			if !g.Branch && g.MaxTokens > 0 {
				c.lengths.add(len(cand.tokens))
				c.stats.Finished++
			}
			if finish == generation.FinishRepeat {
				c.stats.Repeated++
			}
			c.events = append(c.events, Event{
				Kind: CandidateFinished, Request: g.ID, Candidate: i, Finish: finish, Tokens: cand.tokens,
				Repeated: repeat, Cached: g.cached,
			})
		case !taken:
			taken = true
			c.continueWith(s, i)
		case forks > 0 && c.fork(s, i):
			forks--
		default:
			g.waiting = append(g.waiting, i)
		}
	}
	if !taken {
		s.invalid = choices[0].NonFinite
		c.stop(s, seqCached)
	}
}

// appendChoice appends the tokens of a choice to a candidate. If that ends the candidate, it returns the reason, and
// for a repetition its length in tokens. A completion that is complete with its last sampled token is FinishStop, even
// if it reaches the token limit or its end is a repetition.
func (c *Core) appendChoice(g *group, cand *candidate, choice Choice) (finish generation.Finish, repeat int) {
	if len(choice.Tokens) == 0 && choice.Verdict == Continue && g.MaxTokens > 0 {
		panic("core: a candidate that continues needs a token")
	}
	if cand.tokens == nil && len(choice.Tokens) > 0 {
		cand.tokens = make([]Token, 0, min(g.MaxTokens, initialTokens))
	}
	before, forced := len(cand.tokens), choice.Forced
	complete := choice.Verdict == Complete && len(choice.Tokens) <= g.MaxTokens-before
	for i, t := range choice.Tokens[:min(len(choice.Tokens), g.MaxTokens-before)] {
		if len(forced) > 0 && forced[0] == i {
			forced = forced[1:]
			c.stats.ForcedTokens++
		} else {
			cand.sampled = [repeatTimes]int(append(cand.sampled[1:], len(cand.tokens)+1))
		}
		cand.tokens = append(cand.tokens, t)
		last := i+1+len(forced) == len(choice.Tokens) // no token after it is sampled
		if g.StopRepeats && (!complete || !last) {
			if repeat = cand.repetition(c.tune.minRepeat); repeat > 0 {
				break
			}
		}
	}
	cand.pending = len(cand.tokens) - before
	// Only forced tokens are dropped, unless the completion repeats itself: drafts never
	// exceed MaxTokens.
	dropped := len(choice.Tokens) - cand.pending
	c.stats.GeneratedTokens += uint64(cand.pending)
	switch {
	case repeat > 0:
		return generation.FinishRepeat, repeat
	case choice.Verdict == Fail:
		return generation.FinishError, 0
	case choice.Verdict == Complete && dropped == 0:
		return generation.FinishStop, 0
	case len(cand.tokens) == g.MaxTokens:
		return generation.FinishLength, 0
	case choice.Verdict == Stop:
		return generation.FinishStop, 0
	}
	return "", 0
}

// continueWith makes s decode the last tokens of candidate i.
func (c *Core) continueWith(s *sequence, i int) {
	cand := &s.group.candidates[i]
	s.cand, s.target, s.base = i, cand.tokens[len(cand.tokens)-cand.pending:], s.length
}

// fork starts candidate i with a copy of s, which ends with the prompt.
func (c *Core) fork(s *sequence, i int) bool {
	f := c.allocate(s, s.length, s.group)
	if f == nil {
		return false
	}
	c.stats.Forked++
	c.attachPrefix(f, prefixMatch{seq: s, length: s.length})
	c.continueWith(f, i)
	return true
}

// failGroup ends g, whatever its state, with a RequestFailed.
func (c *Core) failGroup(g *group, why StepStatus) {
	c.stats.Failed++
	c.events = append(c.events, Event{Kind: RequestFailed, Request: g.ID, Cached: g.cached, Status: why})
	c.end(g, false)
}

// handleNoSlot makes the next step need fewer cells. It terminates: without a successful step, each
// remedy can be used a limited number of times, and the last one ends a request.
func (c *Core) handleNoSlot() {
	c.stats.NoSlotSteps++
	drafts := 0
	for _, f := range c.scheduled {
		drafts += len(f.drafts)
	}
	switch victim := c.victim(nil, true); {
	case drafts > 0:
		c.rowLimit = len(c.plan.Rows) - drafts
	case victim != nil:
		c.evict(victim, 0)
	case len(c.plan.Rows) > 1:
		c.rowLimit = len(c.plan.Rows) / 2
	case len(c.running) > 1:
		c.preemptYoungest()
	case len(c.running) == 1:
		c.failGroup(c.running[0].group, StepNoSlot)
	}
}
