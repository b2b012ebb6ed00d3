package scheduler

import (
	"fmt"
	"math"
	"slices"

	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// resume sets the candidates to the state in Params.Resume. It checks the tokens, which may be a client's.
func (r *request) resume(v *llama.Vocab) error {
	r.forced = make([][]int, len(r.candidates))
	for i := range r.candidates {
		if err := r.resumeOne(i, v); err != nil {
			return fmt.Errorf("%w: completion %d: %w", generation.ErrResume, i, err)
		}
		if r.candidates[i].Finish != "" {
			r.record(i, nil, r.gen.Resume.CachedTokens, r.times.Submitted.Add(r.times.End))
		}
	}
	return nil
}

func (r *request) resumeOne(i int, v *llama.Vocab) error {
	c, was := &r.candidates[i], r.gen.Resume.Completions[i]
	*c = was
	c.StopToken = -1
	if was.Finish != generation.FinishPaused {
		if was.Stop != "" {
			c.StopToken = was.StopToken
		}
		return nil
	}
	c.Finish, c.Err, c.Tokens, c.Scores = "", nil, nil, slices.Clone(was.Scores)
	for _, s := range was.Scores {
		r.masked[i] += len(s.Mask)
	}
	p := replay{request: r, c: c, sampler: r.samplers[i], end: -1}
	defer p.close()
	for k, token := range was.Tokens {
		if c.Finish != "" {
			return fmt.Errorf("token %d follows the end of the answer", k)
		}
		end, forced := v.IsEOG(token), len(p.forced)
		if err := p.accept(token, end); err != nil {
			return fmt.Errorf("token %d: %w", k, err)
		}
		switch {
		case !r.gen.Scores || k < len(was.Scores):
		case len(p.forced) > forced, end && p.at == len(p.run) && p.end == token:
			p.score(token)
		default:
			c.Scores = append(c.Scores, generation.Score{Logprob: float32(math.NaN()), Masked: math.NaN()})
		}
		if end {
			c.StopToken, c.Finish = token, generation.FinishStop
			continue
		}
		c.Tokens = append(c.Tokens, token)
	}
	if n := len(c.Tokens); n > r.gen.MaxTokens {
		return fmt.Errorf("%d tokens, and the limit of an answer is %d", n, r.gen.MaxTokens)
	}
	if err := p.appendForced(v); err != nil {
		return err
	}
	r.forced[i] = p.forced
	return nil
}

// replay repeats the tokens of a resumed candidate, to find which of them the grammar forced.
type replay struct {
	request *request
	c       *generation.Completion
	sampler *llama.Sampler
	ahead   *llama.Sampler // in the state after run
	run     []llama.Token  // tokens that the grammar forces after the last sampled one
	at      int            // how many of run were accepted
	end     llama.Token    // the end token that it forces after run; -1 if none
	whole   int            // tokens of the completion up to the end of run
	forced  []int          // indexes of forced tokens
}

// accept accepts the next token; end: it is an end-of-generation token.
func (p *replay) accept(token llama.Token, end bool) error {
	if err := p.sampler.Accept(token); err != nil || !p.request.forces || end {
		return err
	}
	n := len(p.c.Tokens)
	if p.at < len(p.run) && p.run[p.at] == token {
		p.at++
		p.forced = append(p.forced, n)
		return nil
	}
	p.close()
	var err error
	if p.ahead, err = p.sampler.Clone(); err != nil {
		return err
	}
	p.at = 0
	p.run, p.end, err = p.ahead.Force(nil)
	p.whole = n + 1 + len(p.run)
	return err
}

// appendForced appends the rest of run, as without an interruption. It ends a candidate that is complete, too long or
// repeats itself.
func (p *replay) appendForced(v *llama.Vocab) error {
	c, most := p.c, p.request.gen.MaxTokens
	if most == 0 { // only the prompt counts
		return nil
	}
	complete := p.end >= 0 && p.whole <= most
	for c.Finish == "" {
		repeated := 0
		if p.request.gen.StopRepeats && !complete {
			repeated = core.Repetition(c.Tokens, p.forced)
		}
		switch {
		case repeated > 0:
			c.Finish = generation.FinishRepeat
			c.Repeated = describeRepeat(v, c.Tokens, repeated)
		case complete && p.at == len(p.run):
			c.Finish, c.StopToken = generation.FinishStop, p.end
		case len(c.Tokens) == most:
			c.Finish = generation.FinishLength
		case p.at == len(p.run):
			return nil
		default:
			token := p.run[p.at]
			if err := p.sampler.Accept(token); err != nil {
				return err
			}
			p.forced = append(p.forced, len(c.Tokens))
			p.at++
			c.Tokens = append(c.Tokens, token)
			p.score(token)
		}
	}
	if c.StopToken >= 0 && len(c.Scores) == len(c.Tokens) {
		p.score(c.StopToken)
	}
	return nil
}

// score appends the score of a forced token.
func (p *replay) score(token llama.Token) {
	if p.request.gen.Scores {
		score := generation.Score{Logprob: float32(math.NaN()), Forced: true}
		if p.request.gen.Masks {
			score.Mask = []llama.Token{token}
		}
		p.c.Scores = append(p.c.Scores, score)
	}
}

func (p *replay) close() {
	if p.ahead != nil {
		_ = p.ahead.Close() // fails only if closed already
		p.ahead = nil
	}
}

// begun returns core.Request.Begun of a resumed request; nil if no candidate has begun. all: all candidates have ended.
func (r *request) begun() (list [][]core.Token, all bool) {
	none, all := true, true
	for i := range r.candidates {
		c := &r.candidates[i]
		list = append(list, nil)
		if c.Finish == "" {
			list[i], all = append([]core.Token{}, c.Tokens...), false
		}
		none = none && c.Finish == "" && len(c.Tokens) == 0
	}
	if none {
		list = nil
	}
	return list, all
}
