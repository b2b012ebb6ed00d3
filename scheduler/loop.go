package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"agentd/llama"
	"agentd/scheduler/core"
)

// loop is the goroutine that owns the context.
type loop struct {
	*Engine
	core *core.Core
	jobs map[core.JobID]*job
	next core.JobID
	// ended jobs are to be answered.
	ended []*job

	plan    *core.Plan
	tasks   []task
	choices []core.Choice
	busy    time.Time // since when it has had work
	times   Times
	base    core.Stats // of cores that were replaced
}

// run takes commands and steps until the engine is closed. llama.cpp's threads
// belong to the OS thread that computes, so the goroutine keeps its own.
func (l *loop) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	defer close(l.done)
	for l.commands() {
		idle := l.core.Idle()
		if idle {
			l.idle()
		} else {
			l.step()
		}
		l.answer()
		if idle {
			<-l.wake
			l.busy = l.now()
		}
	}
	for _, j := range l.jobs {
		l.end(j, ErrClosed)
	}
	l.answer()
	l.finish = l.back.Close()
}

// answer tells the callers of the jobs that ended, after the counters: who has an
// answer also sees it counted.
func (l *loop) answer() {
	l.publish()
	for _, j := range l.ended {
		close(j.done)
	}
	clear(l.ended)
	l.ended = l.ended[:0]
}

// commands takes what callers sent. It returns false once the engine is closed;
// the commands that came before still get their answer.
func (l *loop) commands() bool {
	l.mu.Lock()
	inbox, closed := l.inbox, l.closed
	l.inbox = nil
	l.mu.Unlock()
	for _, c := range inbox {
		if c.cancel {
			if l.jobs[c.job.id] == c.job {
				l.core.Cancel(c.job.id)
				l.end(c.job, context.Canceled)
			}
			continue
		}
		l.accept(c.job)
	}
	return !closed
}

func (l *loop) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *loop) accept(j *job) {
	l.next++
	j.id = l.next
	l.jobs[j.id] = j
	if err := l.core.Submit(core.Job{ID: j.id, Prompt: j.prompt, N: j.g.N, MaxNew: j.g.MaxTokens, LastApart: j.g.Sampler.Temperature <= 0}); err != nil {
		l.end(j, err) // Generate has checked all that the core refuses
	}
}

// end lets go of a job; err is its answer as a whole.
func (l *loop) end(j *job, err error) {
	delete(l.jobs, j.id)
	j.err = err
	j.times.End = l.now().Sub(j.times.Submitted)
	l.ended = append(l.ended, j)
}

// step runs one step of the core.
func (l *loop) step() {
	began := l.now()
	l.plan = l.core.Plan()
	for _, o := range l.plan.Ops {
		if err := l.apply(o); err != nil {
			l.reset(err)
			return
		}
	}
	planned := l.now()
	for _, id := range l.plan.Started {
		l.jobs[id].started(planned)
	}
	l.times.Plan += planned.Sub(began)
	if len(l.plan.Rows) == 0 {
		if len(l.jobs) > 0 {
			l.reset(errors.New("no step can be planned for the waiting jobs"))
		}
		return
	}
	err := l.decode()
	if err != nil && l.isClosed() {
		return // Close has aborted it; run answers the jobs
	}
	decoded := l.now()
	l.times.Decode += decoded.Sub(planned)
	result := outcome(err)
	l.choices = l.choices[:0]
	if result == core.Decoded {
		l.sample()
	}
	sampled := l.now()
	for i := range l.choices {
		l.tasks[i].job.firstToken(sampled)
	}
	l.times.Sample += sampled.Sub(decoded)
	l.commit(result, err)
	l.times.Commit += l.now().Sub(sampled)
}

func (l *loop) apply(o core.Op) error {
	if o.Kind == core.OpCopy {
		return l.back.Copy(o.Src, o.Seq, o.Pos)
	}
	return l.back.Remove(o.Seq, o.Pos)
}

// decode computes the plan's rows and waits for their logits.
func (l *loop) decode() error {
	if err := l.back.Decode(l.plan.Rows); err != nil {
		return err
	}
	l.tasks = l.tasks[:0]
	for _, s := range l.plan.Samples {
		row, err := l.back.Logits(s.Row)
		if err != nil {
			return err
		}
		var forced []core.Token
		if n := len(l.tasks); n < cap(l.tasks) {
			forced = l.tasks[:n+1][n].forced[:0] // its room is used again
		}
		l.tasks = append(l.tasks, task{job: l.jobs[s.Job], cand: s.Candidate, row: row, forced: forced})
	}
	return nil
}

func outcome(err error) core.Result {
	switch {
	case err == nil:
		return core.Decoded
	case errors.Is(err, llama.ErrNoKVSlot):
		return core.NoSlot
	}
	return core.Broken
}

func (l *loop) commit(result core.Result, cause error) {
	ended := 0
	for _, e := range l.core.Commit(result, l.choices) {
		j := l.jobs[e.Job]
		switch e.Kind {
		case core.CandidateFinished:
			ended++
			c := &j.cands[e.Candidate]
			c.tokens, c.finish = e.Tokens, finishes[e.Finish]
			if c.finish != FinishStop {
				c.stop = -1 // one that was forced came too late
			}
		case core.JobFinished:
			j.cached = e.Cached
			l.end(j, nil)
		case core.JobFailed:
			j.cached = e.Cached
			l.failed(j, cause)
		}
	}
	if ended > 0 {
		l.mu.Lock()
		l.pace.ended(ended, l.now(), l.busy)
		l.mu.Unlock()
	}
	if result == core.Broken {
		l.log.Error().Err(cause).Int("rows", len(l.plan.Rows)).Msg("a step failed")
		l.recover()
	}
}

var finishes = map[core.Finish]Finish{
	core.FinishStop: FinishStop, core.FinishLength: FinishLength, core.FinishError: FinishError,
}

// failed answers a job with the candidates that ended before the failure; the
// others have its cause.
func (l *loop) failed(j *job, cause error) {
	for i := range j.cands {
		if c := &j.cands[i]; c.finish == "" {
			c.tokens, c.stop, c.finish, c.err = nil, -1, FinishError, fmt.Errorf("%w: %w", ErrModel, cause)
		}
	}
	l.end(j, nil)
}

// recover compares the context with the core after a step that failed midway.
// The sequences of that step are dropped anyway; another one that differs is
// computed again.
func (l *loop) recover() {
	inStep := map[core.SeqID]bool{}
	for _, r := range l.plan.Rows {
		inStep[r.Seq] = true
	}
	for s := range core.SeqID(l.cfg.MaxSequences) {
		if _, last := l.back.Range(s); !inStep[s] && last != l.core.Length(s)-1 {
			l.log.Warn().Int32("sequence", int32(s)).Int("last", last).Int("expected", l.core.Length(s)-1).Msg("a sequence was lost")
			l.core.Lost(s)
		}
	}
}

// reset answers every job with ErrModel and starts over with an empty context:
// what it holds is not known any more.
func (l *loop) reset(cause error) {
	l.log.Error().Err(cause).Msg("the context is cleared")
	for _, j := range l.jobs {
		l.failed(j, cause)
	}
	if err := l.back.Clear(); err != nil {
		l.log.Error().Err(err).Msg("the context could not be cleared")
	}
	l.base = l.total()
	l.core, _ = core.New(l.rules) // the configuration was accepted before
}

// idle checks that nothing leaked, where that is switched on.
func (l *loop) idle() {
	if !checkInvariants {
		return
	}
	if err := l.core.Verify(); err != nil {
		panic(err)
	}
	for s := range core.SeqID(l.cfg.MaxSequences) {
		if _, last := l.back.Range(s); last != l.core.Length(s)-1 {
			panic(fmt.Sprintf("scheduler: idle, and sequence %d ends at %d instead of %d", s, last, l.core.Length(s)-1))
		}
	}
}
