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
	rows = min(rows, c.cfg.Cells-c.tree.used-len(c.plan.Rows)) // nobody is evicted for a guess
	if rows <= 0 {
		return
	}
	candidates, outputs := 0, 0
	for _, f := range c.fed {
		if f.samples > 0 {
			outputs++
		}
		if c.drafts(f) {
			candidates++
		}
	}
	rows = min(rows, c.cfg.MaxOutputs-outputs)
	for i := range c.fed {
		if f := &c.fed[i]; c.drafts(*f) {
			rows -= c.guess(f, rows/candidates)
			candidates--
		}
	}
}

// drafts says whether the next tokens of what was fed can be guessed.
func (c *Core) drafts(f fed) bool { return f.samples > 0 && f.seq.cand != allCandidates }

// guess plans at most so many guesses behind the rows of f, and returns how many.
func (c *Core) guess(f *fed, most int) int {
	j := f.seq.job
	cand := &j.cands[f.seq.cand]
	if cand.guesses == 0 {
		cand.guesses = firstDraft
	}
	// One more is sampled behind the last guess.
	most = min(most, cand.guesses, j.MaxNew-len(cand.tokens)-1)
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
// worth it: twice as many when all were right, else one more than were. The candidate
// goes on or has ended.
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
		cand.guesses = right + 1
	} else {
		cand.guesses = min(2*cand.guesses, DraftMost)
	}
	c.stats.DraftTokens += uint64(len(f.drafts))
	c.stats.AcceptedTokens += uint64(right)
}
