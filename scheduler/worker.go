package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
	"agentd/scheduler/search"
)

// dispatcher is the engine as its workers see it.
type dispatcher interface {
	// receive takes a worker's commands. closed: the engine was closed.
	receive(w *worker) (inbox []command, closed bool)
	isClosed() bool
	// candidatesEnded records that n candidates ended now.
	candidatesEnded(n int, busySince time.Time)
	// reassign moves a request to another worker, where it starts again; nil: it stays.
	reassign(r *request, from *worker) *worker
	// adapterOf returns an adapter of a worker's model, nil for 0.
	adapterOf(id core.AdapterID, w *worker) (*llama.Adapter, error)
	// contextFailed records a failed step.
	contextFailed(w *worker, lost bool) (down, othersUp bool, pause time.Duration)
}

// command is a message from callers to a worker.
type command struct {
	request *request
	cancel  bool
	drop    *dropAdapter // nil: not a request to drop one
	try     chan<- error // compute before anything is served; it takes one value
}

// worker owns a context. Its goroutine is locked to an OS thread and runs the context.
type worker struct {
	engine dispatcher
	cfg    Config
	vocab  *llama.Vocab
	log    zerolog.Logger
	now    func() time.Time

	index      int
	device     string
	model      *llama.Model
	back       backend
	options    []llama.ContextOption // of another context like this one
	coreConfig core.Config
	wake       chan struct{} // the inbox has commands, or the engine was closed
	done       chan struct{} // the goroutine has ended
	closeErr   error         // of closing the context; set before done

	mu       *sync.Mutex // Engine.mu; guards the shared fields:
	inbox    []command
	stats    Stats // as of the last step
	load     int   // tokens of its requests, see request.cost
	assigned map[*request]struct{}
	// latest is the adapter of the request that it got last.
	latest core.AdapterID
	// prefixes estimates the contents of its prefix cache. It is nil if the engine has one
	// worker or no cache.
	prefixes *prefixIndex
	health   health

	rounds    rounds
	abandon   sync.Once
	abandoned chan struct{} // closed when the engine is closed and the worker is stuck

	// The goroutine's own fields.
	core      *core.Core
	adapter   core.AdapterID // that the context applies
	threads   *core.Threads  // nil: a single thread computes, or a device
	share     *threadShare
	observer  observer
	requests  map[core.RequestID]*request
	branches  map[core.RequestID]*branch // of trees; requests has their ids, too
	touched   []*tree                    // trees that change in this step
	children  []search.Child             // scratch of expandBranches
	grown     []*search.Node             // scratch of selectBranches
	nextID    core.RequestID
	queue     []*request // that wait for an empty context, see startQueued
	ended     []*request // not delivered yet
	tried     int        // rows of the step that try made in this round
	plan      *core.Plan
	tasks     []sampleTask
	choices   []core.Choice
	samplers  []*llama.Sampler // of sampleBatch, as the next two
	rows      [][]float32
	sampled   []llama.Sampled
	busySince time.Time
	times     Times
	searched  uint64 // completions that searches have found
	failures  uint64 // failed requests that were answered
	cancelled uint64 // cancelled requests that no core has seen
	// nonFinite: cells may hold NaN or Inf, which only Clear removes. Attention kernels that
	// add a mask pass them on to sequences that do not use these cells.
	nonFinite bool
}

func newWorker(e *Engine, index int, p workerParts, several bool) (*worker, error) {
	w := &worker{
		engine: e, cfg: e.cfg, vocab: e.model.Vocab(), log: e.log, now: func() time.Time { return e.now() }, mu: &e.mu,
		index: index, device: p.device, model: p.model, back: p.back, requests: map[core.RequestID]*request{}, branches: map[core.RequestID]*branch{},
		assigned: map[*request]struct{}{},
		wake:     make(chan struct{}, 1), done: make(chan struct{}), share: &e.share,
		options: p.options, rounds: rounds{batch: e.cfg.BatchTokens}, abandoned: make(chan struct{}),
	}
	w.coreConfig = core.Config{
		Policy:      w.cfg.Policy,
		Cells:       p.context.Size(),
		MaxOutputs:  p.context.MaxOutputs(),
		RowCells:    rowCells(p.model.Info()),
		Overcommit:  true,
		EndTokens:   e.endings,
		PartialCopy: p.context.Memory().CanRemovePartial(),
		Check:       checkInvariants,
	}
	if w.cfg.HostCells > 0 {
		if !p.context.Memory().CanSave() {
			return nil, fmt.Errorf("scheduler: HostCells is %d: %w", w.cfg.HostCells, ErrNoHostCache)
		}
		w.coreConfig.MinEvict = core.HostBlock / 2 // evicted cells can come back, and larger blocks load faster
	}
	if window := p.model.Info().SlidingWindow; window > 0 {
		w.coreConfig.Usable = func(s core.SeqID, n int) bool {
			// Cells outside the window of their only sequence may be gone, oldest first. Those
			// from n-window on must be there. Without any cell, first and last are -1.
			first, last := w.back.Range(s)
			if !w.coreConfig.PartialCopy {
				return last == n-1 // the whole sequence; first is that of the recurrent state
			}
			return last >= n-1 && first <= max(0, n-window)
		}
	}
	if !w.coreConfig.PartialCopy || w.coreConfig.Usable != nil {
		w.coreConfig.DraftRows = 0
	}
	var err error
	if w.core, err = core.New(w.coreConfig); err != nil {
		return nil, err
	}
	w.stats.Cells = w.coreConfig.Cells
	if several && !w.cfg.NoPrefixCache {
		w.prefixes = newPrefixIndex((w.coreConfig.Cells + w.coreConfig.HostCells) / prefixBlock / 2)
	}
	return w, nil
}

// rowCells estimates core.Config.RowCells. A row takes 2 operations for each parameter, and 4
// for each cell, layer and value of its width. BenchmarkLongPrompt checks the result.
func rowCells(info llama.ModelInfo) int {
	return max(1, int(info.Params)/max(1, info.Layers*info.Embedding))
}

// run takes commands and runs steps until the engine is closed. llama.cpp's threads belong to
// the OS thread that computes, so the goroutine keeps its thread.
func (w *worker) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	defer close(w.done)
	w.startThreads()
	w.share.busy.Add(1)
	for w.rounds.begin(w.now()); w.commands(); w.rounds.begin(w.now()) {
		idle, rows := w.core.Idle(), w.tried
		w.tried = 0
		if idle {
			w.checkIdle()
			w.startQueued()
			idle = w.core.Idle()
		} else {
			rows = w.step()
		}
		w.deliver()
		w.rounds.end(w.now(), rows)
		if idle {
			w.share.busy.Add(-1)
			<-w.wake
			w.share.busy.Add(1)
			w.busySince = w.now()
		}
	}
	w.share.busy.Add(-1)
	w.observer.close()
	for _, r := range w.takeAll() {
		w.finish(r, ErrClosed)
	}
	w.deliver()
	w.closeErr = w.back.Close()
}

// commands executes the commands of callers. It returns false once the engine is closed; the
// earlier commands are still answered.
func (w *worker) commands() bool {
	inbox, closed := w.engine.receive(w)
	for _, c := range inbox {
		switch {
		case c.drop != nil:
			w.dropAdapter(c.drop)
			continue
		case c.try != nil:
			var err error
			w.tried, err = w.try()
			c.try <- err
			continue
		case !c.cancel:
			w.enqueue(c.request)
			continue
		}
		if i := slices.Index(w.queue, c.request); i >= 0 {
			w.queue = slices.Delete(w.queue, i, i+1)
			w.cancelled++
			w.finish(c.request, context.Canceled)
		} else if w.requests[c.request.id] == c.request {
			w.fell(c.request)
			w.core.Cancel(c.request.id)
			w.finish(c.request, context.Canceled)
		}
	}
	return !closed
}

func (w *worker) enqueue(r *request) {
	w.nextID++
	r.id = w.nextID
	if w.cfg.Isolate || w.nonFinite { // it needs an empty context, see startQueued
		w.queue = append(w.queue, r)
		return
	}
	w.submit(r)
}

func (w *worker) submit(r *request) {
	w.requests[r.id] = r
	if r.gen.Distinct != nil {
		if err := w.plant(r); err != nil {
			w.finish(r, err)
		}
		return
	}
	if err := w.core.Submit(core.Request{
		ID: r.id, Adapter: r.gen.Adapter, Prompt: r.gen.Prompt, N: r.gen.N, MaxNew: r.gen.MaxTokens, MinRepeat: r.minRepeat(),
		IsolateLast: r.gen.Temperature <= 0,
	}); err != nil {
		w.finish(r, err) // Engine.validate covers all reasons
	}
}

// step runs one step of the core. It returns the rows that were decoded: a step that failed at once
// says nothing of how long one takes.
func (w *worker) step() (rows int) {
	began := w.now()
	w.plan = w.core.Plan()
	for _, o := range w.plan.Ops {
		if err := apply(w.back, o); err != nil {
			w.recordFailure(err)
			w.reset(err)
			return 0
		}
	}
	planned := w.now()
	for _, id := range w.plan.Started {
		w.requests[id].recordStart(planned)
	}
	w.times.Plan += planned.Sub(began)
	if len(w.plan.Rows) == 0 {
		if len(w.requests) > 0 {
			w.reset(errors.New("no step can be planned for the waiting requests"))
		}
		return 0
	}
	if err := w.applyAdapter(); err != nil {
		w.recordFailure(err)
		w.reset(err)
		return 0
	}
	w.shareThreads()
	w.beginObserve()
	err := w.decode()
	if err != nil && w.engine.isClosed() {
		_, _, _ = w.observer.end()
		return 0 // Close has aborted the step; run answers the requests
	}
	decoded := w.now()
	w.times.Decode += decoded.Sub(planned)
	status := stepStatus(err)
	w.choices = w.choices[:0]
	if status == core.StepDecoded {
		w.sample()
		w.expandBranches()
	}
	sampled := w.now()
	for i := range w.choices {
		r := w.tasks[i].request
		r.recordFirstToken(sampled)
		if r.gen.Progress != nil && len(w.choices[i].Tokens) > 0 {
			r.gen.Progress(w.tasks[i].candidate, slices.Clone(w.choices[i].Tokens))
		}
	}
	w.times.Sample += sampled.Sub(decoded)
	if status == core.StepDecoded {
		rows = len(w.plan.Rows)
		w.observe(rows, sampled.Sub(planned))
	} else {
		_, _, _ = w.observer.end()
	}
	w.commit(status, err)
	w.times.Commit += w.now().Sub(sampled)
	return rows
}

// decode computes the plan's rows and collects their logits.
func (w *worker) decode() error {
	if err := w.back.Decode(w.plan.Rows); err != nil {
		return err
	}
	w.tasks = w.tasks[:0]
	for _, s := range w.plan.Samples {
		var tokens []core.Token // reuses the capacity of an earlier task
		var children []llama.Child
		if n := len(w.tasks); n < cap(w.tasks) {
			tokens, children = w.tasks[:n+1][n].tokens[:0], w.tasks[:n+1][n].children[:0]
		}
		t := sampleTask{request: w.requests[s.Request], branch: w.branches[s.Request], candidate: s.Candidate, numDrafts: s.Drafts, tokens: tokens, children: children}
		for i := range 1 + s.Drafts {
			at := s.Row
			if i > 0 {
				at = s.Draft + i - 1
				t.drafts[i-1] = w.plan.Rows[at].Token
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

func stepStatus(err error) core.StepStatus {
	switch {
	case err == nil:
		return core.StepDecoded
	case errors.Is(err, llama.ErrNoKVSlot):
		return core.StepNoSlot
	}
	return core.StepFailed
}

func (w *worker) commit(status core.StepStatus, cause error) {
	// The health is updated before requests move: another context may answer them at once.
	down, lost := false, false
	if status == core.StepFailed {
		lost = isLost(cause) && !w.isLost()
		w.log.Error().Err(cause).Str("device", w.device).Int("context", w.index).Int("rows", len(w.plan.Rows)).Msg("step failed")
		down = w.recordFailure(cause)
		w.nonFinite = true
	}
	ended := 0
	for _, e := range w.core.Commit(status, w.choices) {
		r, b := w.requests[e.Request], w.branches[e.Request]
		switch {
		case r == nil:
			continue // a branch of a request that another one has ended
		case b != nil && e.Kind != core.RequestFailed:
			w.branchEvent(b, &e)
			continue
		}
		switch e.Kind {
		case core.CandidateFinished:
			ended++
			w.finishCandidate(r, &e)
		case core.RequestFinished:
			r.cached = e.Cached
			w.finish(r, nil)
		case core.RequestFailed:
			if lost { // by this step
				r.lostDevices++
			}
			if e.Status == core.StepFailed && w.retryElsewhere(r) {
				continue
			}
			r.cached = e.Cached
			w.failRequest(r, cause)
		}
	}
	ended += w.forkBranches()
	if ended > 0 {
		w.engine.candidatesEnded(ended, w.busySince)
	}
	switch {
	case status == core.StepDecoded:
		w.recordSuccess()
	case down:
		w.reset(cause)
	case status == core.StepFailed:
		w.resync()
	}
}

// finishCandidate stores the outcome of a candidate.
func (w *worker) finishCandidate(r *request, e *core.Event) {
	c := &r.candidates[e.Candidate]
	c.tokens, c.finish = e.Tokens, e.Finish
	switch {
	case e.Finish != generation.FinishRepeat:
		c.repeated = "" // the core dropped the token that repeats
	case e.Repeated > 0:
		c.repeated = w.describeRepeat(e.Tokens[len(e.Tokens)-e.Repeated:])
	}
	w.nonFinite = w.nonFinite || errors.Is(c.err, llama.ErrCompute)
	if c.finish != generation.FinishStop {
		c.stop = -1 // a forced end behind the token limit
	}
	r.recordEnd(e.Candidate, e.Cached, w.now())
}

// failRequest answers a request with the candidates that ended before the failure, and the
// cause for the others.
func (w *worker) failRequest(r *request, cause error) {
	w.failures++
	w.nonFinite = true
	for i := range r.candidates {
		if c := &r.candidates[i]; c.finish == "" {
			c.tokens, c.stop, c.finish, c.err = nil, -1, generation.FinishError, fmt.Errorf("%w: %w", ErrModel, cause)
		}
	}
	w.finish(r, nil)
}

// finish ends a request; err is the answer for all of it. deliver tells the caller.
func (w *worker) finish(r *request, err error) {
	w.unassign(r)
	r.err = err
	r.times.End = w.now().Sub(r.times.Submitted)
	w.ended = append(w.ended, r)
}

// deliver answers the callers of ended requests. The counters come first, so that a caller
// with an answer sees it counted.
func (w *worker) deliver() {
	w.publish()
	for _, r := range w.ended {
		close(r.done)
	}
	clear(w.ended)
	w.ended = w.ended[:0]
}

// checkIdle verifies that nothing leaked, if checkInvariants is set.
func (w *worker) checkIdle() {
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

// send adds a command to the inbox. Engine.mu is held.
func (w *worker) send(c command) {
	w.inbox = append(w.inbox, c)
	w.wakeUp()
}

// wakeUp ends the sleep of an idle worker.
func (w *worker) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
