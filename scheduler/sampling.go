package scheduler

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// sampling chooses the next tokens of a step. Its lists are reused in later steps.
type sampling struct {
	back       backend
	vocab      *llama.Vocab
	goroutines int // the most that sample; if at least as many threads compute on the CPU, these sample instead
	tasks      []sampleTask
	searching  bool // a task is a branch
	choices    []core.Choice
	samplers   []*llama.Sampler // arguments of SampleBatch, like the next two
	rows       [][]float32
	sampled    []llama.Sampled
	scored     []llama.Token // tokens of prompts that are scored by scoredRows
	scoredRows [][]float32
}

// sampleTask is one candidate to sample.
type sampleTask struct {
	request   *request
	candidate int
	// rows are views of the context's logits: after the last token, and after each speculative
	// token.
	rows      [1 + core.MaxDraftTokens][]float32
	drafts    [core.MaxDraftTokens]core.Token
	numDrafts int
	tokens    []core.Token // chosen in this step so far
	scored    int          // number of the candidate's scores before this step

	// branch is set for a branch of a tree, for which children is computed instead of tokens. err is the
	// reason why that failed.
	branch   *branch
	children []llama.Child
	skipped  float64 // probability of the tokens that are not in children
	err      error
}

// nextRow returns the logits after the chosen tokens; nil: they were not computed.
func (t *sampleTask) nextRow() []float32 {
	n := len(t.tokens)
	if n > t.numDrafts || !slices.Equal(t.drafts[:n], t.tokens) {
		return nil
	}
	return t.rows[n]
}

// decode computes the rows of a plan, and makes a task with logits for each of its samples.
func (s *sampling) decode(plan *core.Plan, requests map[core.RequestID]*request, branches map[core.RequestID]*branch) error {
	if err := s.back.Decode(plan.Rows); err != nil {
		return err
	}
	s.tasks, s.searching = s.tasks[:0], false
	for _, sample := range plan.Samples {
		var t sampleTask
		if n := len(s.tasks); n < cap(s.tasks) { // it reuses the capacity of an earlier task
			t.tokens, t.children = s.tasks[:n+1][n].tokens[:0], s.tasks[:n+1][n].children[:0]
		}
		t.request, t.branch = requests[sample.Request], branches[sample.Request]
		t.candidate, t.numDrafts = sample.Candidate, sample.Drafts
		if t.branch != nil {
			t.request, s.searching = t.branch.tree.request, true
		} else {
			t.scored = len(t.request.candidates[t.candidate].Scores)
		}
		for i := range 1 + sample.Drafts {
			at := sample.Row
			if i > 0 {
				at = sample.Draft + i - 1
				t.drafts[i-1] = plan.Rows[at].Token
			}
			var err error
			if t.rows[i], err = s.back.Logits(at); err != nil {
				return err
			}
		}
		s.tasks = append(s.tasks, t)
	}
	s.scored, s.scoredRows = s.scored[:0], s.scoredRows[:0]
	for _, score := range plan.Scores {
		prompt := requests[score.Request].gen.Prompt
		if score.Index == len(prompt) {
			continue
		}
		row, err := s.back.Logits(score.Row)
		if err != nil {
			return err
		}
		s.scored, s.scoredRows = append(s.scored, prompt[score.Index]), append(s.scoredRows, row)
	}
	return nil
}

// scorePrompts computes the scores of prompt tokens in a plan, and adds them to their requests.
func (s *sampling) scorePrompts(plan []core.Score, requests map[core.RequestID]*request) {
	top := 0
	for _, score := range plan {
		top = max(top, requests[score.Request].gen.Top)
	}
	ranked := llama.ScoreRows(max(1, s.back.SamplerThreads()), s.scoredRows, s.scored, top)
	for _, score := range plan {
		r := requests[score.Request]
		if score.Index < len(r.gen.Prompt) {
			one := generation.Score{Logprob: ranked[0].Logprob, Rank: ranked[0].Rank}
			for _, c := range ranked[0].Top[:min(r.gen.Top, len(ranked[0].Top))] {
				one.Top = append(one.Top, generation.Likely(c))
			}
			r.mu.Lock()
			r.prompt[score.Index-r.gen.ScoreFrom] = one
			r.mu.Unlock()
			ranked = ranked[1:]
		}
	}
}

// choose returns a choice for each task. Several threads share the tasks: those that computed the rows, or goroutines
// if these are more. It reports the tokens to the requests. Branches of searches get their children, and continue in c.
func (s *sampling) choose(branches *trees, c *core.Core, now func() time.Time) []core.Choice {
	s.choices = slices.Grow(s.choices[:0], len(s.tasks))[:len(s.tasks)]
	clear(s.choices)
	workers := min(s.goroutines, (len(s.tasks)+samplesPerWorker-1)/samplesPerWorker)
	if workers > 1 && s.back.SamplerThreads() >= workers && !s.searching {
		s.sampleBatch()
	} else {
		var next atomic.Int64
		work := func() {
			for i := int(next.Add(1)) - 1; i < len(s.tasks); i = int(next.Add(1)) - 1 {
				s.chooseTokens(i, nil)
			}
		}
		var wg sync.WaitGroup
		for range workers - 1 {
			wg.Go(work)
		}
		work()
		wg.Wait()
	}
	if s.searching {
		branches.expand(c, s.tasks, s.choices)
	}
	chosen := now()
	for i, choice := range s.choices {
		t := &s.tasks[i]
		t.request.reach(&t.request.times.FirstToken, chosen)
		if t.request.gen.Stream && len(choice.Tokens) > 0 {
			t.request.progress(t.candidate, choice.Tokens, t.scored)
		}
	}
	return s.choices
}

// sampleBatch samples the first token of each task on the threads that computed the rows. Further
// tokens, such as forced ones, take little time.
func (s *sampling) sampleBatch() {
	s.samplers, s.rows = s.samplers[:0], s.rows[:0]
	for i := range s.tasks {
		t := &s.tasks[i]
		if t.request.gen.MaxTokens == 0 {
			continue
		}
		s.samplers, s.rows = append(s.samplers, t.request.samplers[t.candidate]), append(s.rows, t.rows[0])
	}
	s.sampled = slices.Grow(s.sampled[:0], len(s.samplers))[:len(s.samplers)]
	s.back.SampleBatch(s.samplers, s.rows, s.sampled)
	sampled := s.sampled
	for i := range s.tasks {
		if s.tasks[i].request.gen.MaxTokens > 0 {
			s.chooseTokens(i, &sampled[0])
			sampled = sampled[1:]
		}
	}
}

// chooseTokens runs one task: it samples after the last token and after each accepted speculative token, and appends
// the tokens that the grammar forces. first is the first token if sampleBatch has sampled it, else nil. The choice of a
// branch stays empty. A sampler error ends only its candidate.
func (s *sampling) chooseTokens(i int, first *llama.Sampled) {
	t, choice := &s.tasks[i], &s.choices[i]
	if b := t.branch; b != nil && t.request.spellings != nil {
		t.children, t.skipped, t.err = t.request.spellings.children(b, t.rows[0], t.children)
		return
	} else if b != nil {
		t.children, t.skipped, t.err = b.sampler.Children(t.rows[0], b.tree.search.Skippable(b.node), t.children)
		return
	}
	if t.request.gen.MaxTokens == 0 {
		return
	}
	cand, sampler := &t.request.candidates[t.candidate], t.request.samplers[t.candidate]
	var err error
	for row := t.rows[0]; row != nil && choice.Verdict == core.Continue; row = t.nextRow() {
		var token llama.Token
		if first != nil {
			token, err, first = first.Token, first.Err, nil
		} else {
			token, err = sampler.Sample(row)
		}
		if err != nil {
			break
		}
		t.addScore(token, false)
		if s.vocab.IsEOG(token) {
			cand.StopToken, choice.Verdict = token, core.Stop
			break
		}
		if t.add(s.vocab, token) {
			choice.Verdict = core.Complete
			break
		}
		if !t.request.forces {
			continue
		}
		var buffer [llama.MaxForced]llama.Token
		forced, end, failed := sampler.Force(buffer[:0])
		if err = failed; err != nil {
			break
		}
		for _, token := range forced {
			choice.Forced = append(choice.Forced, len(t.tokens))
			t.addScore(token, true)
			if t.add(s.vocab, token) {
				choice.Verdict = core.Complete
				break
			}
		}
		if end >= 0 && choice.Verdict == core.Continue {
			t.addScore(end, true)
			cand.StopToken, choice.Verdict = end, core.Complete // commit drops it if tokens are cut
		}
	}
	if err != nil {
		cand.Err = public(err)
		fail(choice, err)
	}
	choice.Tokens = t.tokens
}

// fail makes c the choice of a failed candidate. It is the only place that sets NonFinite.
func fail(c *core.Choice, err error) {
	c.Verdict, c.NonFinite = core.Fail, errors.Is(err, llama.ErrCompute)
}

// progress reports to gen.Watch that tokens were chosen. scored is the number of the candidate's scores before them.
func (r *request) progress(candidate int, tokens []core.Token, scored int) {
	var scores []generation.Score
	if r.gen.Scores {
		scores = slices.Clone(r.candidates[candidate].Scores[scored:][:len(tokens)])
	}
	r.emit(event{Event: generation.Event{Kind: generation.Chosen, Completion: candidate, Tokens: slices.Clone(tokens), Scores: scores}})
}

// add appends a token, and reports whether generation.Params.Stop ends the candidate.
func (t *sampleTask) add(v *llama.Vocab, token llama.Token) (ends bool) {
	t.tokens = append(t.tokens, token)
	r := t.request
	switch {
	case r.gen.Stop == nil:
		return false
	case slices.Contains(r.gen.Stop.Tokens, token):
		return true
	case len(r.gen.Stop.Texts) == 0:
		return false
	}
	return r.texts[t.candidate].add(r.gen.Stop, v.Piece(token, true))
}

// addScore appends the score of a task's next token, with generation.Params.Scores. That of a sampled token is
// its sampler's. A forced token has no logprob, since it is chosen without logits.
func (t *sampleTask) addScore(token llama.Token, forced bool) {
	g := &t.request.gen
	if !g.Scores {
		return
	}
	n := len(t.tokens)
	score := generation.Score{
		Logprob: float32(math.NaN()), Forced: forced, Drafted: n < t.numDrafts && t.drafts[n] == token && t.nextRow() != nil,
	}
	if !forced {
		sampler := t.request.samplers[t.candidate]
		sampled := sampler.Score()
		score.Logprob, score.Masked = sampled.Model, sampled.Drawn
		for _, c := range sampler.Top(nil) {
			score.Top = append(score.Top, generation.Likely(c))
		}
		if g.Masks {
			score.Mask = sampler.Mask()
		}
	} else if g.Masks {
		score.Mask = []llama.Token{token}
	}
	if left := generation.MaxMasks - t.request.masked[t.candidate]; len(score.Mask) > left {
		score.Mask = nil
	}
	t.request.masked[t.candidate] += len(score.Mask)
	cand := &t.request.candidates[t.candidate]
	cand.Scores = append(cand.Scores, score)
}
