package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"

	"agentd/scheduler/generation"
)

// The workers of a paused engine hold nothing. What they interrupt or do not take ends with generation.FinishPaused.
// Requests of an Admission with a Host wait in GenerateAll, which continues them by generation.Params.Resume, here or
// in an engine with other weights.

// pausing is which requests an engine interrupts.
type pausing int

const (
	notPaused  pausing = iota
	pausedNew          // requests that have not started
	pausedMore         // all requests
)

// Pause interrupts the requests that have not started, and with running also those that run. Requests that
// are submitted before Resume are interrupted at once. quiet is closed when no request is left.
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

// interruptOne ends a request with the tokens so far.
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

// pause ends the candidates that have not ended, with FinishPaused.
func (r *request) pause() {
	for i := range r.candidates {
		if c := &r.candidates[i]; c.Finish == "" {
			c.Finish, c.Err = generation.FinishPaused, generation.ErrPaused
		}
	}
}

// Host continues the requests of an Admission after a pause. Next and Adapt are called from one goroutine at a time.
type Host interface {
	// Paused returns a channel that is closed when there is no pause. aborted: interrupted requests do not continue.
	Paused() (over <-chan struct{}, aborted bool)
	// Next returns the engine that serves after the pause. It must stay open until the admission is released.
	Next() *Engine
	// Adapt sets a request's adapter to that of the same name at the engine of Next.
	Adapt(r *generation.Request) error
	// Label sets the versions of the weights that computed the new tokens of a result.
	Label(ctx context.Context, of *generation.Request, r *generation.Result) error
}

// turn is a caller's request of GenerateAll, with its result at the last pause.
type turn struct {
	index   int
	request generation.Request
	result  *generation.Result
}

// GenerateAll submits requests together and in order, so that an idle engine always computes the same requests in the
// same steps. Their candidates must be admitted and not yet submitted. It calls done once for each request as it
// ends, from any goroutine, and returns after the last call. err fails the whole request: ErrReleased, an error
// of package generation, ctx's error, or any other if the computation failed.
func (a *Admission) GenerateAll(ctx context.Context, requests []generation.Request, done func(i int, r *generation.Result, err error)) {
	if a.Host == nil {
		a.generateAll(ctx, requests, done)
		return
	}
	turns := make([]turn, len(requests))
	for i := range requests {
		turns[i] = turn{index: i, request: requests[i]}
	}
	for len(turns) > 0 {
		if turns = a.round(ctx, turns, done); len(turns) == 0 || a.waitForEnd(ctx, turns, done) {
			return
		}
		if next := a.Host.Next(); next != a.engine {
			moved, err := a.MoveTo(next)
			if err != nil {
				refuse(turns, done, err)
				return
			}
			a.admission = moved
		}
	}
}

// round generates until requests have ended or are paused. It returns the paused ones in order.
func (a *Admission) round(ctx context.Context, turns []turn, done func(i int, r *generation.Result, err error)) (paused []turn) {
	var kept []turn
	var now []generation.Request
	for _, t := range turns {
		r := t.request
		if t.result != nil && r.Distinct == nil && r.Choice == nil { // a search begins again
			r.Resume = t.result
		}
		if err := a.Host.Adapt(&r); err != nil {
			done(t.index, nil, err)
			continue
		}
		kept, now = append(kept, t), append(now, r)
	}
	for i := range now {
		if watch := now[i].Watch; watch != nil {
			now[i].Watch = func(e generation.Event) {
				if e.Kind != generation.Ended || a.Host.Label(ctx, &now[i], e.Result) == nil { // else the request fails
					watch(e)
				}
			}
		}
	}
	var mu sync.Mutex
	a.generateAll(ctx, now, func(i int, r *generation.Result, err error) {
		if r != nil {
			err = a.Host.Label(ctx, &now[i], r)
		}
		switch {
		case err != nil:
			done(kept[i].index, nil, err)
		case !r.Paused():
			done(kept[i].index, r, nil)
		default:
			mu.Lock()
			defer mu.Unlock()
			kept[i].result = r
			paused = append(paused, kept[i])
		}
	})
	slices.SortFunc(paused, func(a, b turn) int { return a.index - b.index })
	return paused
}

// waitForEnd waits for the end of the pause. If ctx ends first, or the requests are aborted, it calls done for all of
// them and returns true.
func (a *Admission) waitForEnd(ctx context.Context, turns []turn, done func(i int, r *generation.Result, err error)) (answered bool) {
	over, aborted := a.Host.Paused()
	abort := turns[0].request.Abort // of all: one client has them
	select {
	case <-abort: // also where there is no pause
		aborted = true
	default:
	}
	if !aborted {
		select {
		case <-over:
			return false
		case <-abort:
			aborted = true
		case <-a.gone:
			refuse(turns, done, a.Refusal())
			return true
		case <-ctx.Done():
		}
	}
	if !aborted && errors.Is(ctx.Err(), context.Canceled) {
		refuse(turns, done, ctx.Err())
		return true
	}
	for _, t := range turns {
		for i := range t.result.Completions {
			if c := &t.result.Completions[i]; !aborted && c.Finish == generation.FinishPaused {
				c.Finish, c.Err = generation.FinishError, ctx.Err()
			}
		}
		done(t.index, t.result, nil)
	}
	return true
}

// refuse ends requests with an error.
func refuse(turns []turn, done func(i int, r *generation.Result, err error), err error) {
	for _, t := range turns {
		done(t.index, nil, err)
	}
}

// MoveTo replaces the unused queue places by as many of another engine, whatever its QueueLimit.
func (a *admission) MoveTo(e *Engine) (*admission, error) {
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
