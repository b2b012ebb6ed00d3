package core

import (
	"slices"

	"agentd/scheduler/generation"
)

// A sampled token has its score from the logits that it was sampled from. A forced token was
// chosen without logits. Its score needs the row of the token before it, which the candidate
// decodes anyway, or would if it had not ended. Such rows are outputs too (Plan.Scores).

// needsScores reports whether an ended candidate has tokens, or with complete a forced end,
// whose scores need more rows. Those behind accepted drafts have their rows already.
func (cand *candidate) needsScores(complete bool, drafts []Token) bool {
	if cand.ending == generation.FinishError {
		return false
	}
	scored := 1 + commonPrefixLen(drafts, cand.tokens[len(cand.tokens)-cand.pending:])
	cand.scoresEnd = complete && cand.ending == generation.FinishStop
	if cand.scoresEnd {
		return scored <= cand.pending
	}
	return scored < cand.pending
}

// twinOf returns a candidate that decodes or has decoded the same tokens for their scores, nil
// without one. Candidates of one prompt are often equal.
func (g *group) twinOf(cand *candidate) *candidate {
	for i := range g.candidates {
		other := &g.candidates[i]
		if other != cand && other.ending != "" && other.decodesScores && other.scoresEnd == cand.scoresEnd && slices.Equal(other.tokens, cand.tokens) {
			return other
		}
	}
	cand.decodesScores = true
	return nil
}

// firstScore returns the position of the first row of s that has to be an output for a score.
func (s *sequence) firstScore() int {
	cand := &s.group.candidates[s.cand]
	return len(s.group.Prompt) + len(cand.tokens) - cand.pending
}

// scorable returns how many of the next n rows of s the step can have outputs for.
func (c *Core) scorable(s *sequence, n int) int {
	if s.cand == promptOnly || !s.group.Scores {
		return n
	}
	more := s.length + n - max(s.length, s.firstScore()) - 1 // outputs beside the one of each sequence
	if more <= 0 {
		return n
	}
	most := min(more, c.scoreRoom)
	c.scoreRoom -= most
	return n - (more - most)
}

// addScores asks for the scores of the tokens behind n planned rows of s, of which row is the
// first.
func (c *Core) addScores(s *sequence, row, n int) {
	if s.cand == promptOnly || !s.group.Scores {
		return
	}
	cand := &s.group.candidates[s.cand]
	for at := max(s.length, s.firstScore()); at < s.length+n; at++ {
		next, token := at+1-len(s.group.Prompt), Token(-1)
		switch {
		case next < len(cand.tokens):
			token = cand.tokens[next]
		case !cand.scoresEnd:
			return
		}
		i := row + at - s.length
		c.plan.Rows[i].Output = true
		c.plan.Scores = append(c.plan.Scores, Score{Row: i, Request: s.group.ID, Candidate: s.cand, Index: next, Token: token})
	}
}

// reusable returns how much of a target may come from the prefix cache. A candidate with
// scores computes the rows of its last tokens.
func (g *group) reusable(cand int, target []Token) []Token {
	if cand == promptOnly || !g.Scores {
		return target
	}
	return target[:len(target)-g.candidates[cand].pending+1]
}
