package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// worker owns a context: its goroutine, locked to its thread, runs it.
type worker struct {
	*Engine
	index  int
	device string
	back   backend
	rules  core.Config // of every core it makes

	// Engine.mu guards these.
	inbox []command
	stats Stats // as of its last step
	load  int   // tokens of the jobs that it has, see job.cost
	// known is what its cache may hold: about the newest blocks of tokens that it was given.
	// nil in an engine of one worker, or without a cache.
	known  *prefixIndex
	health health

	wake   chan struct{} // the inbox has something, or the engine was closed
	done   chan struct{} // it has ended
	finish error         // of closing the context; set before done

	// The goroutine's own.
	core *core.Core
	// threads is nil where their number is fixed.
	threads *core.Threads
	jobs    map[core.JobID]*job
	next    core.JobID
	// queue holds the jobs that wait for their turn, with Config.Alone.
	queue []*job
	// ended jobs are to be answered.
	ended   []*job
	plan    *core.Plan
	tasks   []task
	choices []core.Choice
	// What sampleTogether hands to the backend, and what comes back.
	samplers []*llama.Sampler
	rows     [][]float32
	sampled  []llama.Sampled
	busy     time.Time // since when it has had work
	times    Times
	base     core.Stats // of cores that were replaced
	// failures were answered; cancelled are those that no core has seen.
	failures, cancelled uint64
	// dirty: cells may hold what is no number, which only Clear removes. Kernels that add
	// a mask to it pass it on to sequences that do not look at these cells.
	dirty bool
}

func newWorker(e *Engine, index int, p part, several bool) (*worker, error) {
	w := &worker{
		Engine: e, index: index, device: p.device, back: p.back, jobs: map[core.JobID]*job{},
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	w.rules = core.Config{
		Cells:        p.context.Size(),
		MaxSequences: e.cfg.MaxSequences,
		MaxOutputs:   p.context.MaxOutputs(),
		MaxRunning:   e.cfg.MaxRunning,
		BatchTokens:  e.cfg.BatchTokens,
		PrefillChunk: e.cfg.PrefillChunk,
		RowCells:     rowCells(p.model.Info()),
		Overcommit:   true,
		HostCells:    e.cfg.HostCells,
		NoReuse:      e.cfg.NoPrefixCache,
		PartialCopy:  p.context.Memory().CanRemovePartial(),
		Check:        checkInvariants,
	}
	if e.cfg.HostCells > 0 {
		if !p.context.Memory().CanSave() {
			return nil, fmt.Errorf("scheduler: HostCells is %d: %w", e.cfg.HostCells, ErrNoHostCache)
		}
		w.rules.EvictLeast = core.HostBlock / 2 // what goes can come back, and in larger blocks sooner
	}
	if window := p.model.Info().SlidingWindow; window > 0 {
		w.rules.Usable = func(s core.SeqID, n int) bool {
			// Cells that left the window of their only sequence may have been given
			// away, oldest first; those from n-window on must be there. Behind a removed
			// end there may be none at all, which is -1 and -1.
			first, last := w.back.Range(s)
			if !w.rules.PartialCopy {
				return last == n-1 // whole, so with its window; first is that of the recurrent state, which is the end
			}
			return last >= n-1 && first <= max(0, n-window)
		}
	}
	if w.rules.PartialCopy && w.rules.Usable == nil && !e.cfg.Alone {
		w.rules.DraftRows = e.cfg.DraftRows
		w.rules.Endings = e.endings
	}
	if e.cfg.Threads > 1 {
		w.threads = core.NewThreads(e.cfg.Threads)
	}
	var err error
	if w.core, err = core.New(w.rules); err != nil {
		return nil, err
	}
	w.stats.Cells = w.rules.Cells
	if several && !e.cfg.Alone && !e.cfg.NoPrefixCache {
		w.known = newPrefixIndex((w.rules.Cells + w.rules.HostCells) / prefixBlock / 2)
	}
	return w, nil
}

// rowCells estimates core.Config's RowCells. A row takes 2 operations for each
// parameter, and 4 for each cell, layer and value of its width. BenchmarkLongPrompt shows
// what comes of it.
func rowCells(info llama.ModelInfo) int {
	return max(1, int(info.Params)/max(1, info.Layers*info.Embedding))
}

// run takes commands and steps until the engine is closed. llama.cpp's threads
// belong to the OS thread that computes, so the goroutine keeps its own.
func (w *worker) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	defer close(w.done)
	if err := shortSlice(); err != nil {
		w.log.Debug().Err(err).Msg("the kernel keeps its own time slices: decisions take longer beside busy programs")
	}
	for w.commands() {
		w.nextAlone()
		idle := w.core.Idle()
		if idle {
			w.idle()
			if w.dirty && !w.cfg.Alone {
				w.renew()
				idle = w.core.Idle()
			}
		} else {
			w.step()
		}
		w.answer()
		if idle {
			<-w.wake
			w.busy = w.now()
		}
	}
	for _, j := range w.inOrder() {
		w.end(j, ErrClosed)
	}
	w.answer()
	w.finish = w.back.Close()
}

// answer tells the callers of the jobs that ended, after the counters: who has an
// answer also sees it counted.
func (w *worker) answer() {
	w.publish()
	for _, j := range w.ended {
		close(j.done)
	}
	clear(w.ended)
	w.ended = w.ended[:0]
}

// commands takes what callers sent. It returns false once the engine is closed;
// the commands that came before still get their answer.
func (w *worker) commands() bool {
	w.mu.Lock()
	inbox, closed := w.inbox, w.closed
	w.inbox = nil
	w.mu.Unlock()
	for _, c := range inbox {
		if c.cancel {
			if i := slices.Index(w.queue, c.job); i >= 0 {
				w.queue = slices.Delete(w.queue, i, i+1)
				w.cancelled++
				w.end(c.job, context.Canceled)
			} else if w.jobs[c.job.id] == c.job {
				w.core.Cancel(c.job.id)
				w.end(c.job, context.Canceled)
			}
			continue
		}
		w.accept(c.job)
	}
	return !closed
}

func (w *worker) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *worker) accept(j *job) {
	w.next++
	j.id = w.next
	if w.cfg.Alone || w.dirty { // what runs ends first, and the context is cleared
		w.queue = append(w.queue, j)
		return
	}
	w.submit(j)
}

func (w *worker) submit(j *job) {
	w.jobs[j.id] = j
	repeatLeast := 0
	if j.g.StopRepeats {
		repeatLeast = core.RepeatLeast
	}
	if err := w.core.Submit(core.Job{
		ID: j.id, Prompt: j.g.Prompt, N: j.g.N, MaxNew: j.g.MaxTokens, RepeatLeast: repeatLeast,
		LastApart: j.g.Temperature <= 0,
	}); err != nil {
		w.end(j, err) // Generate has checked all that the core refuses
	}
}

// poke wakes the worker if it sleeps.
func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// end lets go of a job; err is its answer as a whole.
func (w *worker) end(j *job, err error) {
	w.forget(j)
	j.err = err
	j.times.End = w.now().Sub(j.times.Submitted)
	w.ended = append(w.ended, j)
}

// step runs one step of the core.
func (w *worker) step() {
	began := w.now()
	w.plan = w.core.Plan()
	for _, o := range w.plan.Ops {
		if err := apply(w.back, o); err != nil {
			w.broke(err)
			w.reset(err)
			return
		}
	}
	planned := w.now()
	for _, id := range w.plan.Started {
		w.jobs[id].started(planned)
	}
	w.times.Plan += planned.Sub(began)
	if len(w.plan.Rows) == 0 {
		if len(w.jobs) > 0 {
			w.reset(errors.New("no step can be planned for the waiting jobs"))
		}
		return
	}
	before := preemptions()
	err := w.decode()
	if err != nil && w.isClosed() {
		return // Close has aborted it; run answers the jobs
	}
	decoded := w.now()
	w.times.Decode += decoded.Sub(planned)
	result := outcome(err)
	w.choices = w.choices[:0]
	if result == core.Decoded {
		w.sample()
	}
	sampled := w.now()
	for i := range w.choices {
		w.tasks[i].job.firstToken(sampled)
	}
	w.times.Sample += sampled.Sub(decoded)
	if result == core.Decoded {
		w.observe(core.StepCost{Rows: len(w.plan.Rows), Time: sampled.Sub(planned), Preempted: preemptions() - before})
	}
	w.commit(result, err)
	w.times.Commit += w.now().Sub(sampled)
}

// decode computes the plan's rows and waits for their logits.
func (w *worker) decode() error {
	if err := w.back.Decode(w.plan.Rows); err != nil {
		return err
	}
	w.tasks = w.tasks[:0]
	for _, s := range w.plan.Samples {
		var room []core.Token
		if n := len(w.tasks); n < cap(w.tasks) {
			room = w.tasks[:n+1][n].tokens[:0]
		}
		t := task{job: w.jobs[s.Job], cand: s.Candidate, drafts: s.Drafts, tokens: room}
		for i := range 1 + s.Drafts {
			at := s.Row
			if i > 0 {
				at = s.Draft + i - 1
				t.guesses[i-1] = w.plan.Rows[at].Token
			}
			var err error
			if t.rows[i], err = w.back.Logits(at); err != nil {
				return err
			}
		}
		w.tasks = append(w.tasks, t)
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

func (w *worker) commit(result core.Result, cause error) {
	// Whether this context still works is known before its jobs go elsewhere: they may
	// be answered there at once.
	out, lost := false, false
	if result == core.Broken {
		lost = isLost(cause) && !w.isLost()
		w.log.Error().Err(cause).Str("device", w.device).Int("context", w.index).Int("rows", len(w.plan.Rows)).Msg("a step failed")
		out = w.broke(cause)
		w.dirty = true
	}
	ended := 0
	for _, e := range w.core.Commit(result, w.choices) {
		j := w.jobs[e.Job]
		switch e.Kind {
		case core.CandidateFinished:
			ended++
			c := &j.cands[e.Candidate]
			c.tokens, c.finish = e.Tokens, e.Finish
			switch {
			case e.Finish != generation.FinishRepeat:
				c.repeated = "" // with a token behind the last one
			case e.Repeated > 0:
				c.repeated = w.cameAgain(e.Tokens[len(e.Tokens)-e.Repeated:])
			}
			w.dirty = w.dirty || errors.Is(c.err, llama.ErrCompute)
			if c.finish != generation.FinishStop {
				c.stop = -1 // one that was forced came too late
			}
			j.endOf(e.Candidate, e.Cached, w.now())
		case core.JobFinished:
			j.cached = e.Cached
			w.end(j, nil)
		case core.JobFailed:
			if lost { // in this step, not before it
				j.fatal++
			}
			if e.Result == core.Broken && w.handOver(j) {
				continue
			}
			j.cached = e.Cached
			w.failed(j, cause)
		}
	}
	if ended > 0 {
		w.mu.Lock()
		w.pace.ended(ended, w.now(), w.busy)
		w.mu.Unlock()
	}
	switch {
	case result == core.Decoded:
		w.worked()
	case out:
		w.reset(cause)
	case result == core.Broken:
		w.recover()
	}
}

// failed answers a job with the candidates that ended before the failure; the
// others have its cause.
func (w *worker) failed(j *job, cause error) {
	w.failures++
	w.dirty = true
	for i := range j.cands {
		if c := &j.cands[i]; c.finish == "" {
			c.tokens, c.stop, c.finish, c.err = nil, -1, generation.FinishError, fmt.Errorf("%w: %w", ErrModel, cause)
		}
	}
	w.end(j, nil)
}

// recover compares the context with the core after a step that failed midway.
// The sequences of that step are dropped anyway; another one that differs is
// computed again, and all are where there is recurrent state: llama.cpp has planned by then which cells
// change their places, and nothing tells whether their contents did.
func (w *worker) recover() {
	inStep := map[core.SeqID]bool{}
	for _, r := range w.plan.Rows {
		inStep[r.Seq] = true
	}
	for s := range core.SeqID(w.cfg.MaxSequences) {
		_, last := w.back.Range(s)
		if !inStep[s] && (last != w.core.Length(s)-1 || last >= 0 && !w.rules.PartialCopy) {
			w.log.Warn().Int32("sequence", int32(s)).Int("last", last).Int("expected", w.core.Length(s)-1).Msg("a sequence was lost")
			w.core.Lost(s)
		}
	}
}

// reset lets go of every job, to another context or with ErrModel, and starts over
// with an empty one: what it holds is not known any more.
func (w *worker) reset(cause error) {
	w.log.Error().Err(cause).Str("device", w.device).Int("context", w.index).Msg("the context is cleared")
	for _, j := range w.inOrder() {
		if !w.handOver(j) {
			w.failed(j, cause)
		}
	}
	if err := w.back.Clear(); err != nil {
		w.log.Error().Err(err).Str("device", w.device).Int("context", w.index).Msg("the context could not be cleared")
		w.broke(err)
	}
	w.dirty = false
	w.mu.Lock()
	if w.known != nil {
		w.known.clear()
	}
	w.mu.Unlock()
	w.newCore()
}

// renew clears a context that nobody uses any more, and starts what waited for that.
func (w *worker) renew() {
	waiting := w.queue
	w.queue = nil
	w.reset(errDirty)
	for _, j := range waiting {
		w.submit(j)
	}
}

// inOrder are the worker's jobs in the order of their arrival. They are taken out of
// the queue.
func (w *worker) inOrder() []*job {
	list := slices.SortedFunc(maps.Values(w.jobs), func(a, b *job) int { return cmp.Compare(a.id, b.id) })
	list = append(list, w.queue...)
	w.queue = nil
	return list
}

// errDirty is why a context is cleared that nobody uses.
var errDirty = errors.New("a computation failed, and cells may hold what is no number")

// idle checks that nothing leaked, where that is switched on.
func (w *worker) idle() {
	if !checkInvariants {
		return
	}
	if err := w.core.Verify(); err != nil {
		panic(err)
	}
	for s := range core.SeqID(w.cfg.MaxSequences) {
		if _, last := w.back.Range(s); last != w.core.Length(s)-1 {
			panic(fmt.Sprintf("scheduler: idle, and sequence %d ends at %d instead of %d", s, last, w.core.Length(s)-1))
		}
	}
}
