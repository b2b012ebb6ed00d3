package core

import "slices"

// draft fills the step with guesses: behind the tokens that a candidate has chosen
// come those that followed the same ones before, in its prompt or in what it said
// (prompt lookup decoding: Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding).
// Agents repeat names and the form of calls all the time. A right guess saves a step;
// the rows of a wrong one are removed. What is chosen stays the same, since each token
// is sampled from the logits behind the ones that were chosen before it.
func (c *Core) draft() {
	c.guesses = c.guesses[:0]
	rows := min(c.cfg.DraftRows, c.limit) - len(c.plan.Rows)
	if rows <= 0 {
		return
	}
	candidates, outputs := 0, 0
	for _, f := range c.fed {
		if f.samples > 0 {
			outputs++
		}
		if f.guessable() {
			candidates++
		}
	}
	if candidates == 0 {
		return
	}
	rows = c.draftRoom(min(rows, c.cfg.MaxOutputs-outputs))
	// Another one is first in each step, and what one has no use for is for the next.
	for i := range c.fed {
		f := &c.fed[(i+int(c.tick%uint64(len(c.fed))))%len(c.fed)]
		if f.guessable() {
			rows -= c.guess(f, (rows+candidates-1)/candidates)
			candidates--
		}
	}
}

// guessable says whether the next tokens can be guessed.
func (f *fed) guessable() bool { return f.samples > 0 && f.seq.cand != allCandidates }

// draftRoom returns for how many of so many guesses there are cells. Those of cached
// sequences can be had, as for other rows: how wide the steps of a candidate are must not
// depend on what else was computed. Those that waiting candidates need can't.
func (c *Core) draftRoom(rows int) int {
	for rows > 0 && c.cfg.Cells-c.tree.used < len(c.plan.Rows)+rows {
		if victim := c.victim(nil, true); victim == nil || victim.needed() {
			return max(0, c.cfg.Cells-c.tree.used-len(c.plan.Rows))
		}
		c.makeRoom(c.cfg.Cells - c.tree.used + 1)
	}
	return rows
}

// guess plans at most so many guesses behind the rows of f, and returns how many.
func (c *Core) guess(f *fed, most int) int {
	j := f.seq.job
	cand := &j.cands[f.seq.cand]
	if cand.reach == 0 {
		cand.reach = firstDraft
	}
	if cand.rest > 0 {
		cand.rest--
		return 0
	}
	// One more is sampled behind the last guess.
	most = min(most, cand.reach, j.MaxNew-len(cand.tokens)-1)
	if most <= 0 {
		return 0
	}
	begin := len(c.guesses)
	c.guesses = lookup(c.guesses, j.Prompt, cand.tokens, most)
	f.drafts = c.guesses[begin:len(c.guesses):len(c.guesses)]
	if i := slices.IndexFunc(f.drafts, func(t Token) bool { return slices.Contains(c.cfg.Endings, t) }); i >= 0 {
		f.drafts = f.drafts[:i] // behind it another one speaks
	}
	if len(f.drafts) == 0 {
		return 0
	}
	sample := &c.plan.Samples[f.sample]
	sample.Draft, sample.Drafts = len(c.plan.Rows), len(f.drafts)
	pos := f.seq.length + len(f.tokens)
	for i, t := range f.drafts {
		c.plan.Rows = append(c.plan.Rows, Row{Token: t, Pos: pos + i, Seq: f.seq.id, Output: true})
	}
	return len(f.drafts)
}

// lookup appends to list at most n of the tokens that followed the last few ones of
// prompt and tokens when these were there before: behind draftMatch of them if they
// were, and where that was last.
func lookup(list, prompt, tokens []Token, n int) []Token {
	size := len(prompt) + len(tokens)
	at := func(i int) Token {
		if i < len(prompt) {
			return prompt[i]
		}
		return tokens[i-len(prompt)]
	}
	if size <= draftLeast {
		return list
	}
	last := at(size - 1)
	best, found := draftLeast-1, 0
	for end := size - 1; end >= max(draftLeast, size-draftLook); end-- {
		if at(end-1) != last {
			continue
		}
		same := 1
		for same < draftMatch && same < end && at(end-1-same) == at(size-1-same) {
			same++
		}
		if same > best {
			best, found = same, end
			if same == draftMatch {
				break
			}
		}
	}
	if found == 0 {
		return list
	}
	for i := found; i < min(found+n, size); i++ {
		list = append(list, at(i))
	}
	return list
}

// settle keeps the rows of those guesses that were chosen, and learns how many are
// worth it: twice as many when all were right, else one more than were, and none for a
// while when none was right several times. The candidate goes on or has ended.
func (c *Core) settle(f fed, chosen []Token, more bool) {
	if len(f.drafts) == 0 {
		return
	}
	right := commonPrefix(f.drafts, chosen)
	if more {
		right = min(right, len(chosen)-1) // the logits behind the last one are wanted
	}
	s := f.seq
	cand := &s.job.cands[s.cand]
	if right > 0 {
		c.tree.extend(s, f.drafts[:right], firstTokens)
		cand.pending -= right
	}
	if right < len(f.drafts) {
		c.op(Op{Kind: OpRemove, Seq: s.id, Pos: s.length})
		cand.reach = right + 1
	} else {
		cand.reach = min(2*cand.reach, DraftMost)
	}
	if cand.wrong++; right > 0 {
		cand.wrong = 0
	}
	cand.rest = max(0, min(cand.wrong-1, draftRest))
	c.stats.DraftTokens += uint64(len(f.drafts))
	c.stats.AcceptedTokens += uint64(right)
}
