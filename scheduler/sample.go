package scheduler

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"agentd/llama"
	"agentd/scheduler/core"
)

// task is what is to be sampled for one candidate.
type task struct {
	job  *job
	cand int
	// rows are views of the context's logits: of the last token, and of each guess.
	rows    [1 + core.DraftMost][]float32
	guesses [core.DraftMost]core.Token
	drafts  int
	tokens  []core.Token // that were chosen
}

// next returns the row from which the token behind those that were chosen is sampled;
// nil: it was not computed.
func (t *task) next() []float32 {
	n := len(t.tokens)
	if n > t.drafts || !slices.Equal(t.guesses[:n], t.tokens) {
		return nil
	}
	return t.rows[n]
}

// sample fills w.choices from w.tasks. Samplers are independent of each other,
// so several threads share the tasks: those of the computation, or where these are
// fewer, goroutines.
func (w *worker) sample() {
	for range w.tasks {
		w.choices = append(w.choices, core.Choice{})
	}
	workers := min(w.cfg.SampleWorkers, (len(w.tasks)+samplesPerWorker-1)/samplesPerWorker)
	if workers <= 1 {
		for i := range w.tasks {
			w.choose(i, nil)
		}
		return
	}
	if w.back.Team() >= workers {
		w.sampleTogether()
		return
	}
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(w.tasks) {
				return
			}
			w.choose(i, nil)
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// sampleTogether is sample on the threads that computed the rows. What follows from the first token, as
// what the grammar forces, takes little.
func (w *worker) sampleTogether() {
	w.samplers, w.rows = w.samplers[:0], w.rows[:0]
	for i := range w.tasks {
		t := &w.tasks[i]
		w.samplers, w.rows = append(w.samplers, t.job.samplers[t.cand]), append(w.rows, t.rows[0])
	}
	w.sampled = slices.Grow(w.sampled[:0], len(w.tasks))[:len(w.tasks)]
	w.back.SampleTogether(w.samplers, w.rows, w.sampled)
	for i := range w.tasks {
		w.choose(i, &w.sampled[i])
	}
}

// choose runs one task, whose first token may be sampled already. A sampler that fails
// ends its candidate only.
func (w *worker) choose(i int, first *llama.Sampled) {
	t, choice := &w.tasks[i], &w.choices[i]
	for row := t.rows[0]; row != nil && choice.Verdict == core.Continue; row = t.next() {
		var token llama.Token
		var err error
		if first != nil {
			token, err, first = first.Token, first.Err, nil
		} else {
			token, err = t.job.samplers[t.cand].Sample(row)
		}
		switch {
		case err != nil:
			t.job.cands[t.cand].err = err
			choice.Verdict, choice.Spoilt = core.Fail, errors.Is(err, llama.ErrCompute)
		case w.model.Vocab().IsEOG(token):
			t.job.cands[t.cand].stop = token
			choice.Verdict = core.Stop
		case w.says(t, token):
			choice.Verdict = core.Repeat
		case w.forces(t.job):
			w.force(t, choice)
		}
	}
	choice.Tokens = t.tokens
}

// forces says whether tokens of j's candidates can be forced.
func (w *worker) forces(j *job) bool { return !w.cfg.NoForcedTokens && j.g.Sampler.Grammar != "" }

// force adds to a choice what the grammar leaves no choice about.
func (w *worker) force(t *task, choice *core.Choice) {
	var buffer [llama.MaxForced]llama.Token
	tokens, end, err := t.job.samplers[t.cand].Force(buffer[:0])
	if err != nil {
		t.job.cands[t.cand].err = err
		choice.Verdict = core.Fail
		return
	}
	for _, token := range tokens {
		choice.Forced = append(choice.Forced, len(t.tokens))
		if w.says(t, token) {
			choice.Verdict = core.Repeat
			return
		}
	}
	if end >= 0 {
		t.job.cands[t.cand].stop = end // unless the tokens before it are too many
		choice.Verdict = core.Complete
	}
}
