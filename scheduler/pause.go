package scheduler

import (
	"slices"

	"agentd/scheduler/generation"
)

// A paused engine holds nothing. What it interrupts or does not take ends with generation.FinishPaused,
// and generation.Params.Resume continues it later, here or in an engine with other weights.

// pausing says which requests an engine interrupts.
type pausing int

const (
	notPaused  pausing = iota
	pausedNew          // those that have not started
	pausedMore         // and those that run
)

// Pause interrupts the requests that have not started, and with running those that run, too. So it
// does with all that are submitted until Resume. quiet is closed when no request is left.
func (e *Engine) Pause(running bool) (quiet <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pausing = pausedNew
	if running {
		e.pausing = pausedMore
	}
	if e.quiet == nil {
		e.quiet = make(chan struct{})
	}
	quiet = e.quiet
	e.signalQuiet()
	for _, w := range e.workers {
		w.wakeUp()
	}
	return quiet
}

// Resume ends a pause.
func (e *Engine) Resume() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pausing = notPaused
}

// signalQuiet closes quiet when no request is left. Engine.mu is held.
func (e *Engine) signalQuiet() {
	if e.quiet != nil && !slices.ContainsFunc(e.workers, func(w *worker) bool { return len(w.assigned) > 0 }) {
		close(e.quiet)
		e.quiet = nil
	}
}

// interrupt ends the worker's requests that a pause concerns.
func (w *worker) interrupt(p pausing) {
	for _, r := range w.list() {
		if p == pausedMore || slices.Contains(w.queue, r) || !w.core.Started(r.id) {
			w.interruptOne(r)
		}
	}
}

// interruptOne ends a request with what there is.
func (w *worker) interruptOne(r *request) {
	switch queued := slices.Index(w.queue, r); {
	case queued >= 0:
		w.queue = slices.Delete(w.queue, queued, queued+1)
	case r.tree != nil:
		copy(r.candidates, r.tree.outcomes(false))
	default:
		for i, tokens := range w.core.Interrupt(r.id) {
			if tokens != nil {
				r.candidates[i].Tokens = tokens
			}
		}
	}
	r.pause()
	w.finish(r, nil) // it cancels a search
}

// pause ends the candidates that have not ended.
func (r *request) pause() {
	for i := range r.candidates {
		if c := &r.candidates[i]; c.Finish == "" {
			c.Finish, c.Err = generation.FinishPaused, generation.ErrPaused
		}
	}
}

// MoveTo exchanges the unused queue places for as many of another engine, whose limit does not refuse
// them.
func (a *Admission) MoveTo(e *Engine) (*Admission, error) {
	a.engine.mu.Lock()
	n, was := a.unused, a.place
	a.engine.mu.Unlock()
	if was.refusal != nil {
		return nil, was.refusal
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	defer a.Keep(0)
	was.gone = make(chan struct{})
	return e.place(n, was), nil
}
