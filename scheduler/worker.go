package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"agentd/internal/base/clip"
	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// command is a message to a worker.
type command struct {
	kind    commandKind
	request *request       // for compute, cancel and interrupt
	adapter core.AdapterID // for dropAdapter
	answer  chan<- error   // for the last three kinds; receives one value
}

type commandKind int

const (
	compute       commandKind = iota // compute the request
	cancel                           // cancel the request
	interrupt                        // end the request with its tokens so far
	dropAdapter                      // drop an adapter and its cached prefixes
	clearPrefixes                    // drop all cached prefixes
	tryPrompt                        // compute a prompt to check the weights, before anything is served
)

// worker owns a context. Its goroutine is locked to an OS thread and runs the context.
type worker struct {
	engine *Engine
	cfg    Config
	log    zerolog.Logger // names the device and the context
	index  int
	workerParts
	coreConfig core.Config
	wake       chan struct{} // the inbox has commands, or the engine was closed
	done       chan struct{} // the goroutine has ended
	closeErr   error         // of closing the context; set before done

	workload // Engine.mu guards it
	rounds   rounds

	// The goroutine's own fields.
	core      *core.Core
	adapter   core.AdapterID // the one that the context applies
	threads   *threads
	sampling  sampling
	trees     trees
	requests  map[core.RequestID]*request
	nextID    core.RequestID
	queue     []*request // requests that wait for an empty context, see startQueued
	ended     []*request // ended requests that are not delivered yet
	plan      *core.Plan
	busySince time.Time
	counters  counters
	// nonFinite: cells may hold NaN or Inf, which only clearing removes. Attention kernels that add
	// a mask let them affect sequences that do not use these cells.
	nonFinite bool
}

// counters are the part of a worker's Stats that the core does not count.
type counters struct {
	times     Times
	lap       time.Time // when the last part of a step ended
	cancelled uint64    // requests cancelled before the core had them
}

func newWorker(e *Engine, index int, p workerParts, several bool) (*worker, error) {
	w := &worker{
		engine: e, cfg: e.cfg, index: index, workerParts: p,
		log:  e.log.With().Str("device", p.Device).Int("context", index).Logger(),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		workload: workload{assigned: map[*request]struct{}{}}, requests: map[core.RequestID]*request{},
		rounds: rounds{batch: e.cfg.BatchTokens, abandoned: make(chan struct{})},
	}
	w.sampling = sampling{back: p.back, vocab: e.vocab, goroutines: runtime.GOMAXPROCS(0)}
	w.trees = trees{vocab: e.vocab, branches: map[core.RequestID]*branch{}}
	info, memory := p.Model.Info(), p.context.Memory()
	w.coreConfig = core.Config{
		Policy: w.cfg.Policy, Cells: p.context.Size(), MaxOutputs: p.context.MaxOutputs(),
		// An estimate: a row takes 2 floating-point operations for each parameter, and 4 for each cell, layer and
		// embedding dimension. BenchmarkLongPrompt measures it.
		RowCells:   max(1, int(info.Params)/max(1, info.Layers*info.Embedding)),
		Overcommit: true, EndTokens: e.endings, PartialCopy: memory.CanRemovePartial(), Check: checkInvariants,
	}
	if w.cfg.HostCells > 0 && !memory.CanSave() {
		return nil, fmt.Errorf("scheduler: HostCells is %d: %w", w.cfg.HostCells, ErrNoHostCache)
	}
	if info.SlidingWindow > 0 {
		w.coreConfig.Usable = w.usable(info.SlidingWindow)
	}
	if !w.coreConfig.PartialCopy || w.coreConfig.Usable != nil {
		w.coreConfig.DraftRows = 0
	}
	w.core = core.New(w.coreConfig)
	w.stats.Cells = w.coreConfig.Cells
	if several && !w.cfg.NoPrefixCache {
		w.prefixes = newPrefixIndex((w.coreConfig.Cells + w.coreConfig.HostCells) / prefixBlock / 2)
	}
	return w, nil
}

// usable returns core.Config.Usable for a sliding window. llama.cpp frees cells outside of the window, oldest first. To
// continue at position n, the cells from n-window on must exist.
func (w *worker) usable(window int) func(s core.SeqID, n int) bool {
	return func(s core.SeqID, n int) bool {
		first, last := w.back.Range(s) // -1 without any cell
		if !w.coreConfig.PartialCopy {
			return last == n-1 // the whole sequence; first is that of the recurrent state
		}
		return last >= n-1 && first <= max(0, n-window)
	}
}

// run takes commands and runs steps until the engine is closed. The goroutine is locked to its OS thread, since
// llama.cpp's threads belong to the thread that computes.
func (w *worker) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	defer close(w.done)
	w.threads = startThreads(w)
	w.busySince = w.engine.now()
	for open, rows := w.round(); open; open, rows = w.round() {
		idle := w.core.Idle()
		if idle {
			if checkInvariants {
				w.checkIdle()
			}
			if w.nonFinite || w.cfg.Isolate {
				w.startQueued()
				idle = w.core.Idle()
			}
		} else {
			if len(w.ended) > 0 { // by a command: its callers do not wait for the step
				w.deliver()
			}
			rows = w.step()
		}
		w.deliver()
		w.rounds.end(w.engine.now(), rows)
		if idle {
			<-w.wake
			w.busySince = w.engine.now()
		}
	}
	w.threads.close()
	for _, r := range w.list() {
		w.finish(r, ErrClosed)
	}
	w.queue = nil
	w.deliver()
	w.closeErr = w.back.Close()
}

// round begins a round and executes the commands in the inbox. open is false once the engine is closed; commands
// from before are still answered. rows is the number of rows that tryPrompt computed.
func (w *worker) round() (open bool, rows int) {
	w.rounds.begin(w.engine.now())
	w.engine.mu.Lock()
	inbox, pausing, closed := w.inbox, w.engine.pausing, w.engine.closed
	w.inbox = nil
	w.engine.mu.Unlock()
	for _, c := range inbox {
		var err error
		switch r := c.request; c.kind {
		case dropAdapter:
			w.core.DropAdapter(c.adapter)
			if w.adapter == c.adapter {
				err = w.useAdapter(0)
			}
			c.answer <- err
		case clearPrefixes:
			c.answer <- w.clearCache()
		case tryPrompt:
			rows, err = w.try()
			c.answer <- err
		case cancel:
			w.cancel(r)
		case interrupt:
			if w.requests[r.id] == r || slices.Contains(w.queue, r) {
				w.interruptOne(r)
			}
		case compute:
			r.id = w.newID()
			if w.cfg.Isolate || w.nonFinite { // it needs an empty context, see startQueued
				w.queue = append(w.queue, r)
			} else {
				w.submit(r)
			}
		}
	}
	if pausing != notPaused {
		for _, r := range w.list() {
			if pausing == pausedMore || slices.Contains(w.queue, r) || !w.core.Started(r.id) {
				w.interruptOne(r)
			}
		}
	}
	return !closed, rows
}

func (w *worker) cancel(r *request) {
	if i := slices.Index(w.queue, r); i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
		w.counters.cancelled++
	} else if w.requests[r.id] == r {
		w.core.Cancel(r.id) // finish cancels the other branches of a search
	} else {
		return
	}
	w.finish(r, context.Canceled)
}

func (w *worker) newID() core.RequestID {
	w.nextID++
	return w.nextID
}

func (w *worker) submit(r *request) {
	w.requests[r.id] = r
	var begun [][]core.Token
	ended := false
	if r.gen.Resume != nil {
		begun, ended = r.begun()
	}
	since := w.engine.second(r.times.Submitted)
	switch {
	case ended:
		w.finish(r, nil)
	case r.gen.Distinct != nil || r.gen.Choice != nil:
		if err := w.trees.start(w.core, r, since); err != nil {
			w.finish(r, err)
		}
	default:
		c := core.Request{ID: r.id, Request: r.gen, Since: since, Begun: begun, Forced: r.forced}
		if c.MaxTokens == 0 { // nothing follows the last token
			c.Prompt = c.Prompt[:len(c.Prompt)-1]
		}
		w.core.Submit(c)
	}
}

// step computes one step of the core. It returns the number of decoded rows, 0 if the step failed: the watchdog
// must not learn from the time of such a step.
func (w *worker) step() (rows int) {
	w.counters.lap = w.engine.now()
	w.core.Tick(w.engine.second(w.counters.lap))
	w.plan = w.core.Plan()
	err := w.apply()
	w.lap(&w.counters.times.Plan)
	switch {
	case err != nil:
		w.recordFailure(err)
		w.reset(err)
		return 0
	case len(w.plan.Rows) == 0 && len(w.requests) > 0:
		w.reset(errNoStep)
		return 0
	case len(w.plan.Rows) == 0:
		return 0
	}
	w.threads.begin()
	if err = w.sampling.decode(w.plan, w.requests, w.trees.branches); err != nil && w.engine.isClosed() {
		w.threads.end(0, 0)
		return 0 // Close has aborted the step; run answers the requests
	}
	took := w.lap(&w.counters.times.Decode)
	var choices []core.Choice
	if err == nil {
		w.core.Observe(took)
		rows, choices = len(w.plan.Rows), w.sampling.choose(&w.trees, w.core, w.engine.now)
		w.sampling.scorePrompts(w.plan.Scores, w.requests)
	}
	w.threads.end(rows, took+w.lap(&w.counters.times.Sample))
	w.commit(err, choices)
	w.lap(&w.counters.times.Commit)
	return rows
}

var errNoStep = errors.New("no step can be planned for the waiting requests")

// lap adds the time since the last call to *part, and returns it.
func (w *worker) lap(part *time.Duration) time.Duration {
	now := w.engine.now()
	took := now.Sub(w.counters.lap)
	w.counters.lap = now
	*part += took
	return took
}

// apply applies the memory operations and the adapter of the plan.
func (w *worker) apply() error {
	for _, o := range w.plan.Ops {
		if err := w.back.Apply(o); err != nil {
			return err
		}
	}
	w.started()
	if len(w.plan.Rows) == 0 || w.adapter == w.plan.Adapter {
		return nil
	}
	return w.useAdapter(w.plan.Adapter)
}

// owner returns the request of an id of the core, which may be a branch's; nil if it has ended.
func (w *worker) owner(id core.RequestID) *request {
	if b := w.trees.branches[id]; b != nil {
		return b.tree.request
	}
	return w.requests[id]
}

// started records which requests start with the plan.
func (w *worker) started() {
	if len(w.plan.Started) == 0 {
		return
	}
	e, planned := w.engine, w.engine.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range w.plan.Started {
		r := w.owner(id)
		r.reach(&r.times.Queue, planned)
		if a := r.admission; a != nil && a.started.IsZero() { // a try has none
			a.started = planned
		}
	}
}

// commit reports the result of the step to the core, and the core's events to the requests.
func (w *worker) commit(cause error, choices []core.Choice) {
	status, down, lost := core.StepDecoded, false, false
	switch {
	case errors.Is(cause, llama.ErrNoKVSlot):
		status = core.StepNoSlot
	case cause != nil:
		// The health is updated before requests move: another context may answer them at once.
		status, w.nonFinite = core.StepFailed, true
		w.log.Error().Err(cause).Int("rows", len(w.plan.Rows)).Msg("step failed")
		down, lost = w.recordFailure(cause)
	}
	w.nonFinite = w.nonFinite || slices.ContainsFunc(choices, func(c core.Choice) bool { return c.NonFinite })
	ended := 0
	var free []*request // once for each candidate that ended
	for _, e := range w.core.Commit(status, choices) {
		r := w.owner(e.Request)
		switch {
		case r == nil: // a branch of a request that another one has ended
		case w.trees.branches[e.Request] != nil && w.trees.event(&e):
		case e.Kind == core.CandidateFinished:
			ended++
			free = append(free, r)
			c := &r.candidates[e.Candidate]
			c.Tokens, c.Finish = e.Tokens, e.Finish
			if e.Repeated > 0 {
				c.Repeated = describeRepeat(w.engine.vocab, e.Tokens, e.Repeated)
			}
			if c.Finish != generation.FinishStop {
				c.StopToken = -1 // a forced end after the token limit
			}
			r.record(e.Candidate, nil, e.Cached, w.engine.now())
		case e.Kind == core.RequestFinished:
			r.cached = e.Cached
			w.finish(r, nil)
		default:
			if lost { // by this step
				r.lostDevices++
			}
			r.cached = e.Cached
			w.failRequest(r, cause, e.Status == core.StepFailed)
		}
	}
	if len(w.trees.changed) > 0 {
		for _, r := range w.trees.commit(w.core, w.newID, w.engine.now()) {
			ended += r.gen.N
			w.finish(r, nil)
		}
	}
	w.engine.mu.Lock()
	if ended > 0 {
		w.engine.rate.record(ended, w.engine.now(), w.busySince)
	}
	for _, r := range free {
		if r.places > 0 { // one that another context computes again has none
			r.places--
			r.admission.giveBack(1)
		}
	}
	if h := &w.health; status == core.StepDecoded && (h.failures > 0 || h.pause > 0) {
		*h = health{lost: h.lost, stage: h.stage}
	}
	w.engine.mu.Unlock()
	switch {
	case down:
		w.reset(cause)
	case status == core.StepFailed:
		w.resync()
	}
}

// describeRepeat describes the repeated n-gram, of that many tokens, at the end of a candidate.
func describeRepeat(v *llama.Vocab, tokens []core.Token, repeated int) string {
	text := v.Detokenize(tokens[len(tokens)-repeated:], true)
	return fmt.Sprintf("%q came four times in a row", clip.Text(strings.ToValidUTF8(text, "\uFFFD"), maxQuoted))
}

// failRequest ends a request. Candidates that ended before the failure keep their results; the others get
// the cause. retry: another context may compute it.
func (w *worker) failRequest(r *request, cause error, retry bool) {
	r.failed, r.retry, w.nonFinite = true, retry && r.lostDevices <= maxLostDevices, true
	for i := range r.candidates {
		if c := &r.candidates[i]; c.Finish == "" {
			*c = failed(nil, fmt.Errorf("%w: %w", ErrModel, cause))
		}
	}
	w.finish(r, nil)
}

// finish ends a request; err, if not nil, fails all of it. deliver reports it to the caller.
func (w *worker) finish(r *request, err error) {
	if r.tree != nil {
		w.trees.cancel(w.core, r)
	}
	delete(w.requests, r.id)
	r.err = err
	r.times.End = w.engine.now().Sub(r.times.Submitted)
	w.ended = append(w.ended, r)
}

// deliver publishes the worker's statistics, and then reports ended requests to their callers. So a caller finds its
// own request in the statistics.
func (w *worker) deliver() {
	s := Stats{Stats: w.core.Stats(), Threads: w.back.SamplerThreads(), Times: w.counters.times}
	for _, r := range w.queue {
		s.Waiting += r.gen.N
	}
	s.Cancelled += w.counters.cancelled
	s.Finished += w.trees.found
	w.engine.mu.Lock()
	w.stats = s
	for _, r := range w.ended {
		w.load -= r.cost
		delete(w.assigned, r)
		close(r.done)
	}
	w.engine.signalQuiet()
	w.engine.mu.Unlock()
	clear(w.ended)
	w.ended = w.ended[:0]
}

// checkIdle verifies that an idle worker has no request, sequence or block left.
func (w *worker) checkIdle() {
	if err := w.core.Verify(); err != nil {
		panic(err)
	}
	for s := range core.SeqID(w.cfg.MaxSequences) {
		if _, last := w.back.Range(s); last != w.core.Length(s)-1 {
			panic(fmt.Sprintf("scheduler: idle, and sequence %d ends at %d instead of %d", s, last, w.core.Length(s)-1))
		}
	}
}

// send puts a command into a worker's inbox. Engine.mu is held.
func (w *worker) send(c command) {
	w.inbox = append(w.inbox, c)
	w.wakeUp()
}

// wakeUp wakes an idle worker.
func (w *worker) wakeUp() { signal(w.wake) }

// signal puts a value into c, which has a capacity of one, unless it has one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
