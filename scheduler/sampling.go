package scheduler

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"agentd/llama"
	"agentd/scheduler/core"
)

// sampleTask is one candidate to sample.
type sampleTask struct {
	request   *request
	candidate int
	// rows are views of the context's logits: behind the last token, and behind each
	// speculative token.
	rows      [1 + core.MaxDraftTokens][]float32
	drafts    [core.MaxDraftTokens]core.Token
	numDrafts int
	tokens    []core.Token // chosen so far

	// branch is set for a branch of a tree, whose children are listed. err is the reason why
	// they could not be.
	branch   *branch
	children []llama.Child
	rest     float64 // share of the probability that children lacks
	err      error
}

// nextRow returns the logits behind the chosen tokens; nil: they were not computed.
func (t *sampleTask) nextRow() []float32 {
	n := len(t.tokens)
	if n > t.numDrafts || !slices.Equal(t.drafts[:n], t.tokens) {
		return nil
	}
	return t.rows[n]
}

// sample fills w.choices from w.tasks. Samplers are independent of each
// other, so several threads share the tasks: those that computed the rows, or goroutines if
// there are fewer.
func (w *worker) sample() {
	w.choices = slices.Grow(w.choices, len(w.tasks))[:len(w.tasks)]
	clear(w.choices)
	workers := min(w.cfg.SampleWorkers, (len(w.tasks)+samplesPerWorker-1)/samplesPerWorker)
	if workers > 1 && w.back.SamplerThreads() >= workers && len(w.branches) == 0 {
		w.sampleBatch()
		return
	}
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < len(w.tasks); i = int(next.Add(1)) - 1 {
			w.chooseTokens(i, nil)
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// sampleBatch samples the first tokens on the threads that computed the rows. The rest, such
// as forced tokens, takes little time.
func (w *worker) sampleBatch() {
	w.samplers, w.rows = w.samplers[:0], w.rows[:0]
	for i := range w.tasks {
		t := &w.tasks[i]
		w.samplers, w.rows = append(w.samplers, t.request.samplers[t.candidate]), append(w.rows, t.rows[0])
	}
	w.sampled = slices.Grow(w.sampled[:0], len(w.tasks))[:len(w.tasks)]
	w.back.SampleBatch(w.samplers, w.rows, w.sampled)
	for i := range w.tasks {
		w.chooseTokens(i, &w.sampled[i])
	}
}

// chooseTokens runs one task. first is its first token, if it is sampled already. A sampler
// error ends only its candidate.
func (w *worker) chooseTokens(i int, first *llama.Sampled) {
	t, choice := &w.tasks[i], &w.choices[i]
	if b := t.branch; b != nil {
		t.children, t.rest, t.err = b.sampler.Children(t.rows[0], b.tree.search.Skippable(b.node), t.children)
		return
	}
	for row := t.rows[0]; row != nil && choice.Verdict == core.Continue; row = t.nextRow() {
		var token llama.Token
		var err error
		if first != nil {
			token, err, first = first.Token, first.Err, nil
		} else {
			token, err = t.request.samplers[t.candidate].Sample(row)
		}
		switch {
		case err != nil:
			t.request.candidates[t.candidate].err = err
			choice.Verdict, choice.NonFinite = core.Fail, errors.Is(err, llama.ErrCompute)
		case w.vocab.IsEOG(token):
			t.addScore(token, false)
			t.request.candidates[t.candidate].stop = token
			choice.Verdict = core.Stop
		case w.appendSampled(t, token):
			choice.Verdict = core.Repeat
		case w.canForce(t.request):
			w.appendForced(t, choice)
		}
	}
	choice.Tokens = t.tokens
}

// canForce reports whether a grammar can force tokens of r.
func (w *worker) canForce(r *request) bool { return !w.cfg.NoForcedTokens && r.gen.Grammar != "" }

// appendForced appends the tokens for which the grammar allows one choice.
func (w *worker) appendForced(t *sampleTask, choice *core.Choice) {
	var buffer [llama.MaxForced]llama.Token
	tokens, end, err := t.request.samplers[t.candidate].Force(buffer[:0])
	if err != nil {
		t.request.candidates[t.candidate].err = err
		choice.Verdict = core.Fail
		return
	}
	for _, token := range tokens {
		choice.Forced = append(choice.Forced, len(t.tokens))
		t.addScore(token, true)
		if w.appendToken(t, token) {
			choice.Verdict = core.Repeat
			return
		}
	}
	if end >= 0 {
		t.addScore(end, true)
		t.request.candidates[t.candidate].stop = end // finishCandidate drops it if tokens are cut
		choice.Verdict = core.Complete
	}
}

// appendSampled appends a token that was sampled.
func (w *worker) appendSampled(t *sampleTask, token llama.Token) (repeats bool) {
	t.addScore(token, false)
	return w.appendToken(t, token)
}

// appendToken appends a chosen token. It reports whether the candidate ends because it
// repeats a call.
func (w *worker) appendToken(t *sampleTask, token llama.Token) (repeats bool) {
	t.tokens = append(t.tokens, token)
	cand := &t.request.candidates[t.candidate]
	if cand.calls == nil {
		return false
	}
	if call := cand.calls.push(w.vocab.Piece(token, true)); call != "" {
		cand.repeated = describeCall(call)
	}
	return cand.repeated != ""
}
