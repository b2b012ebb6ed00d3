package scheduler

import (
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

// sample fills l.choices from l.tasks. Samplers are independent of each other,
// so several goroutines share the tasks.
func (l *loop) sample() {
	for range l.tasks {
		l.choices = append(l.choices, core.Choice{})
	}
	workers := min(l.cfg.SampleWorkers, (len(l.tasks)+samplesPerWorker-1)/samplesPerWorker)
	if workers <= 1 {
		for i := range l.tasks {
			l.choose(i)
		}
		return
	}
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(l.tasks) {
				return
			}
			l.choose(i)
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
func (l *loop) choose(i int) {
	t := &l.tasks[i]
	token, err := t.job.samplers[t.cand].Sample(t.row)
	switch {
	case err != nil:
		t.job.cands[t.cand].err = err
		l.choices[i].Verdict = core.Fail
	case l.model.Vocab().IsEOG(token):
		t.job.cands[t.cand].stop = token
		l.choices[i].Verdict = core.Stop
	default:
		l.choices[i].Token = core.Token(token)
		if l.forces(t.job) {
			l.force(t, &l.choices[i])
		}
	}
}

// forces says whether tokens of j's candidates can be forced.
func (l *loop) forces(j *job) bool { return !l.cfg.NoForcedTokens && j.g.Sampler.Grammar != "" }

// force adds to a choice what the grammar leaves no choice about.
func (l *loop) force(t *task, choice *core.Choice) {
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
