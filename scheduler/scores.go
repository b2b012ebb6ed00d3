package scheduler

import (
	"math"

	"agentd/llama"
	"agentd/scheduler/generation"
)

// A candidate with generation.Params.Scores keeps a score for each chosen token. A sampled
// token has its score from its sampler. A forced one that stands behind a speculative token is
// scored by that token's row, and the others by later rows (core.Plan.Scores); none of them
// with NoForcedScores.

var unknown = float32(math.NaN())

// scoreTask is a token to score by a view of the logits behind which it stands.
type scoreTask struct {
	row     []float32
	token   llama.Token
	to      *candidate
	index   int // in the completion
	logprob float32
}

func (s *scoreTask) compute() { s.logprob = llama.Logprob(s.row, s.token) }

// collectScores fills w.scores with what the plan asks for, once the rows are computed.
func (w *worker) collectScores() error {
	w.scores = w.scores[:0]
	for _, s := range w.plan.Scores {
		t := scoreTask{token: s.Token, to: &w.requests[s.Request].candidates[s.Candidate], index: s.Index}
		if t.token < 0 {
			t.token = t.to.stop
		}
		var err error
		if t.row, err = w.back.Logits(s.Row); err != nil {
			return err
		}
		w.scores = append(w.scores, t)
	}
	return nil
}

// storeScores gives the computed scores to their candidates, whose lists grow while the
// tasks of a step run.
func (w *worker) storeScores() {
	for i := range w.scores {
		s := &w.scores[i]
		s.to.scores[s.index].Logprob = s.logprob
	}
}

// completeScores takes the logprobs that c lacks from a candidate with the same tokens.
func (c *candidate) completeScores(twin *candidate) {
	for i := range c.scores[:min(len(c.scores), len(twin.scores))] {
		if s := &c.scores[i]; math.IsNaN(float64(s.Logprob)) {
			s.Logprob = twin.scores[i].Logprob
		}
	}
}

// addSampledScore keeps the score of the token that the task's sampler returned last.
func (t *sampleTask) addSampledScore(token llama.Token) {
	if t.request.gen.Scores {
		s := t.request.samplers[t.candidate].Score()
		t.addScore(token, generation.Score{Logprob: s.Model, Masked: s.Drawn})
	}
}

// addForcedScore keeps the score of a forced token, which is appended next.
func (t *sampleTask) addForcedScore(token llama.Token) {
	if !t.request.gen.Scores {
		return
	}
	s := generation.Score{Logprob: unknown, Forced: true}
	if row := t.nextRow(); row != nil && !t.request.gen.NoForcedScores {
		s.Logprob = llama.Logprob(row, token)
	}
	t.addScore(token, s)
}

func (t *sampleTask) addScore(token llama.Token, s generation.Score) {
	n := len(t.tokens)
	s.Drafted = n < t.numDrafts && t.drafts[n] == token && t.nextRow() != nil
	cand := &t.request.candidates[t.candidate]
	cand.scores = append(cand.scores, s)
}
