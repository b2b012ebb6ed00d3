package scheduler

import (
	"errors"
	"sync"
	"sync/atomic"

	"agentd/llama"
	"agentd/scheduler/core"
)

// task is one row to be sampled for one candidate.
type task struct {
	job  *job
	cand int
	row  []float32 // a view of the context's logits
	// forced are the tokens behind the sampled one, of which there is no choice.
	forced []core.Token
}

// sample fills w.choices from w.tasks. Samplers are independent of each other,
// so several goroutines share the tasks.
func (w *worker) sample() {
	for range w.tasks {
		w.choices = append(w.choices, core.Choice{})
	}
	workers := min(w.cfg.SampleWorkers, (len(w.tasks)+samplesPerWorker-1)/samplesPerWorker)
	if workers <= 1 {
		for i := range w.tasks {
			w.choose(i)
		}
		return
	}
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(w.tasks) {
				return
			}
			w.choose(i)
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// choose runs one task. A sampler that fails ends its candidate only.
func (w *worker) choose(i int) {
	t := &w.tasks[i]
	token, err := t.job.samplers[t.cand].Sample(t.row)
	switch {
	case err != nil:
		t.job.cands[t.cand].err = err
		w.choices[i].Verdict, w.choices[i].Spoilt = core.Fail, errors.Is(err, llama.ErrCompute)
	case w.model.Vocab().IsEOG(token):
		t.job.cands[t.cand].stop = token
		w.choices[i].Verdict = core.Stop
	default:
		w.choices[i].Token = core.Token(token)
		if w.forces(t.job) {
			w.force(t, &w.choices[i])
		}
	}
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
		t.forced = append(t.forced, core.Token(token))
	}
	choice.Forced = t.forced
	if end >= 0 {
		t.job.cands[t.cand].stop = end // unless the tokens before it are too many
		choice.Verdict = core.Complete
	}
}
