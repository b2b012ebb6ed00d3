package scheduler

import (
	"math"

	"agentd/llama"
	"agentd/scheduler/generation"
)

// addScore keeps how the next token of a task was chosen, with generation.Params.Scores. A sampled
// token has its score from its sampler. A forced one has no logprob: it was chosen without logits.
func (t *sampleTask) addScore(token llama.Token, forced bool) {
	if !t.request.gen.Scores {
		return
	}
	n := len(t.tokens)
	score := generation.Score{
		Logprob: float32(math.NaN()), Forced: forced, Drafted: n < t.numDrafts && t.drafts[n] == token && t.nextRow() != nil,
	}
	if !forced {
		sampled := t.request.samplers[t.candidate].Score()
		score.Logprob, score.Masked = sampled.Model, sampled.Drawn
	}
	cand := &t.request.candidates[t.candidate]
	cand.scores = append(cand.scores, score)
}
