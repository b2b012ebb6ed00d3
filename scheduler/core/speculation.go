package core

import "slices"

// speculate fills the step with speculative tokens by prompt lookup decoding (Saxena 2023,
// github.com/apoorvumang/prompt-lookup-decoding). It proposes the tokens that followed the
// same n-gram earlier, in the prompt or in the completion: agents repeat names and the form of
// calls. An accepted token saves a step; the rows of rejected ones are removed. The output is the
// same as without, because each token is sampled from the logits after the chosen ones.
func (c *Core) speculate() {
	c.drafts = c.drafts[:0]
	rows := min(c.cfg.DraftRows, c.rowLimit) - len(c.plan.Rows)
	if rows <= 0 {
		return
	}
	candidates, outputs := 0, 0
	for _, f := range c.scheduled {
		if f.samples > 0 {
			outputs++
		}
		if f.canSpeculate() {
			candidates++
		}
	}
	if candidates == 0 {
		return
	}
	rows = min(rows, c.cfg.MaxOutputs-outputs-len(c.plan.Scores))
	// Cached sequences are evicted as for other rows, so that the rows of a candidate do not depend on what else is
	// cached. What waiting candidates need stays.
	for rows > 0 && c.cfg.Cells-c.tree.used < len(c.plan.Rows)+rows {
		if victim := c.victim(nil, true); victim == nil || victim.isForkSource() {
			rows = max(0, c.cfg.Cells-c.tree.used-len(c.plan.Rows))
			break
		}
		c.makeRoom(c.cfg.Cells - c.tree.used + 1)
	}
	// Another candidate is first in each step. Rows that one does not use go to the next.
	for i := range c.scheduled {
		f := &c.scheduled[(i+int(c.step%uint64(len(c.scheduled))))%len(c.scheduled)]
		if f.canSpeculate() {
			rows -= c.propose(f, (rows+candidates-1)/candidates)
			candidates--
		}
	}
}

// canSpeculate reports whether the rows end with the newest token of a candidate.
func (f *scheduledRows) canSpeculate() bool {
	return f.samples > 0 && f.seq.cand != promptOnly && !f.seq.group.Branch
}

// propose plans at most most speculative rows after f, and returns their number.
func (c *Core) propose(f *scheduledRows, most int) int {
	g := f.seq.group
	cand := &g.candidates[f.seq.cand]
	if cand.draftLen == 0 {
		cand.draftLen = initialDraftLen
	}
	if cand.cooldown > 0 {
		cand.cooldown--
		return 0
	}
	// One more token is sampled after the last draft token.
	most = min(most, cand.draftLen, g.MaxTokens-len(cand.tokens)-1)
	if most <= 0 {
		return 0
	}
	begin := len(c.drafts)
	c.drafts = promptLookup(c.drafts, g.Prompt, cand.tokens, most)
	f.drafts = c.drafts[begin:len(c.drafts):len(c.drafts)]
	if i := slices.IndexFunc(f.drafts, func(t Token) bool { return slices.Contains(c.cfg.EndTokens, t) }); i >= 0 {
		f.drafts = f.drafts[:i] // no draft continues past the end of a turn
	}
	if len(f.drafts) == 0 {
		return 0
	}
	sample := &c.plan.Samples[f.firstSample]
	sample.Draft, sample.Drafts = len(c.plan.Rows), len(f.drafts)
	pos := f.seq.length + len(f.tokens)
	for i, t := range f.drafts {
		c.plan.Rows = append(c.plan.Rows, Row{Token: t, Pos: pos + i, Seq: f.seq.id, Output: true})
	}
	return len(f.drafts)
}

// promptLookup appends to list at most n tokens that followed an earlier occurrence of the
// last n-gram of prompt and tokens. It prefers a match of draftNgram tokens, and the latest
// match.
func promptLookup(list, prompt, tokens []Token, n int) []Token {
	size := len(prompt) + len(tokens)
	at := func(i int) Token {
		if i < len(prompt) {
			return prompt[i]
		}
		return tokens[i-len(prompt)]
	}
	if size <= minDraftNgram {
		return list
	}
	last := at(size - 1)
	best, found := minDraftNgram-1, 0
	for end := size - 1; end >= max(minDraftNgram, size-draftWindow); end-- {
		if at(end-1) != last {
			continue
		}
		same := 1
		for same < draftNgram && same < end && at(end-1-same) == at(size-1-same) {
			same++
		}
		if same > best {
			best, found = same, end
			if same == draftNgram {
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

// acceptDrafts keeps the rows of accepted speculative tokens and adapts the candidate's draft length: it doubles when
// all were accepted, and else is the number of accepted tokens plus one. Repeated rejection of
// whole drafts adds a cooldown. continues: the candidate has not ended.
func (c *Core) acceptDrafts(f scheduledRows, chosen []Token, continues bool) {
	if len(f.drafts) == 0 {
		return
	}
	accepted := commonPrefixLen(f.drafts, chosen)
	if continues {
		accepted = min(accepted, len(chosen)-1) // the logits after the last one are needed
	}
	s := f.seq
	cand := &s.group.candidates[s.cand]
	if accepted > 0 {
		c.tree.extend(s, f.drafts[:accepted], initialTokens)
		cand.pending -= accepted
	}
	if accepted < len(f.drafts) {
		c.addOp(Op{Kind: OpRemove, Seq: s.id, Pos: s.length})
		cand.draftLen = accepted + 1
	} else {
		cand.draftLen = min(2*cand.draftLen, MaxDraftTokens)
	}
	if cand.rejections++; accepted > 0 {
		cand.rejections = 0
	}
	cand.cooldown = max(0, min(cand.rejections-1, maxDraftCooldown))
	c.stats.DraftTokens += uint64(len(f.drafts))
	c.stats.AcceptedTokens += uint64(accepted)
}
