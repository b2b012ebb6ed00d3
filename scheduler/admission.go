package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"agentd/llama"
	"agentd/scheduler/generation"
)

// Admission holds queue places for the candidates of one API request. Its methods are safe for concurrent use.
type Admission struct {
	*admission
	// Host, if set, makes interrupted requests wait for the end of a pause. Without it their results
	// are returned with FinishPaused.
	Host Host
}

// admission is an Admission at one engine.
type admission struct {
	engine *Engine
	place
	unused int // candidates not yet submitted, and paused ones; guarded by Engine.mu
}

// Admit reserves queue places for candidates, the number of completions that a whole API request will
// generate: all or none. The error is ErrClosed or a *generation.QueueFullError, also if the candidates
// before it would probably take longer than Config.QueueTime.
//
// priority is the highest of the request's generations. Admissions of lower priority may lose their places, see
// makeWay.
func (e *Engine) Admit(candidates, priority int) (*Admission, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	if err := e.makeWay(candidates, priority); err != nil {
		e.refused++
		return nil, err
	}
	return &Admission{admission: e.place(candidates, place{priority: priority, since: e.now(), gone: make(chan struct{})})}, nil
}

// together returns the number of candidates that are computed at once. Engine.mu is held.
func (e *Engine) together() (n int) {
	for _, w := range e.workers {
		switch {
		case w.health.lost:
		case e.cfg.Isolate:
			n++ // at least: the candidates of one request
		default:
			n += e.cfg.MaxRunning
		}
	}
	return n
}

// submit makes requests and sends them to workers, all at once and in order. A refused one has an error in errs; wait
// must be called for all others.
func (a *admission) submit(ctx context.Context, list []generation.Request) (requests []*request, errs []error) {
	e := a.engine
	requests, errs = make([]*request, len(list)), make([]error, len(list))
	if err := e.beginCall(); err != nil { // Close waits for the samplers
		return requests, slices.Repeat([]error{err}, len(list))
	}
	defer e.calls.Done()
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0)) // parsing a grammar takes long
	for i, gen := range list {
		group.Go(func() error {
			gen.Client = generation.ClientOf(ctx)
			if errs[i] = ctx.Err(); errs[i] == nil {
				requests[i], errs[i] = e.newRequest(gen)
			}
			if errs[i] == nil && gen.Stream && gen.Resume != nil {
				for k := range requests[i].candidates { // the tokens that the grammar forces after the resumed ones
					was, tokens := len(gen.Resume.Completions[k].Tokens), requests[i].candidates[k].Tokens
					if len(tokens) > was {
						requests[i].progress(k, tokens[was:], was)
					}
				}
			}
			return nil
		})
	}
	_ = group.Wait() // its functions return nil
	e.mu.Lock()
	for i, r := range requests {
		n := live(&list[i])
		switch {
		case a.refusal != nil:
			errs[i] = a.refusal
		case errs[i] != nil:
		case e.closed:
			errs[i] = ErrClosed
		case n > a.unused:
			errs[i] = fmt.Errorf("%w: %d candidates, %d are left", ErrReleased, n, a.unused)
		default:
			if r.admission, r.places = a, n; !e.assign(r, false) {
				errs[i] = fmt.Errorf("%w: %w", ErrModel, errNoContext)
				break
			}
			a.unused -= n
			e.calls.Add(1)
		}
		if errs[i] != nil && n <= a.unused { // its places are free at once
			a.unused -= n
			a.giveBack(n)
		}
	}
	e.mu.Unlock()
	for i, r := range requests {
		if r != nil && errs[i] != nil {
			r.close()
		}
	}
	return requests, errs
}

// release frees a request that no worker has any more. With keep it is paused, and keeps its queue places to be
// submitted again.
func (a *admission) release(r *request, keep bool) {
	e := a.engine
	r.close()
	e.mu.Lock()
	if keep {
		a.unused += r.places
	} else {
		a.giveBack(r.places)
	}
	if r.failed {
		e.failed++
	}
	e.mu.Unlock()
	e.calls.Done()
}

// generateAll is GenerateAll until a pause.
func (a *admission) generateAll(ctx context.Context, requests []generation.Request, done func(i int, r *generation.Result, err error)) {
	var all sync.WaitGroup
	submitted, errs := a.submit(ctx, requests)
	for i := range submitted {
		all.Go(func() {
			var r *generation.Result
			err := errs[i]
			if err == nil {
				r, err = a.wait(ctx, submitted[i])
			}
			if gone := ctx.Err(); gone != nil && (err != nil || errors.Is(gone, context.Canceled)) {
				r, err = nil, gone
			}
			if err != nil {
				r, err = nil, public(err)
			}
			done(i, r, err)
		})
	}
	all.Wait()
}

// public turns errors of package llama into errors of package generation, for callers that must not import llama.
func public(err error) error {
	switch {
	case errors.Is(err, llama.ErrClosed):
		return generation.ErrClosed
	case errors.Is(err, llama.ErrGrammar), errors.Is(err, llama.ErrGrammarDead):
		return fmt.Errorf("%w: %w", generation.ErrGrammar, err)
	}
	return err
}

// Keep gives back all but n of the unused queue places.
func (a *admission) Keep(n int) {
	e := a.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if given := a.unused - max(0, n); given > 0 {
		a.unused -= given
		a.giveBack(given)
	}
}

// Release gives back the unused queue places. It must be called after the last GenerateAll; a second call does nothing.
func (a *admission) Release() { a.Keep(0) }

// beginCall registers a call that Close must wait for.
func (e *Engine) beginCall() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	e.calls.Add(1)
	return nil
}

// completionRate estimates the time until a number of candidates have ended.
type completionRate struct {
	last     time.Time
	interval time.Duration // moving average of the time between two ends
}

// record records that n candidates ended now. busySince is when their worker last became busy.
func (p *completionRate) record(n int, now, busySince time.Time) {
	if p.last.Before(busySince) {
		p.last = busySince
	}
	each := now.Sub(p.last) / time.Duration(n)
	p.last = now
	if p.interval == 0 {
		p.interval = each
		return
	}
	for range n {
		p.interval += time.Duration(rateSmoothing * float64(each-p.interval))
	}
}

// excess returns how many of the waiting candidates will not end within limit; 0 means no limit.
func (p *completionRate) excess(waiting int, limit time.Duration) int {
	if limit <= 0 || p.interval <= 0 {
		return 0
	}
	return max(0, waiting-int(limit/p.interval))
}

func (p *completionRate) estimate(candidates int) time.Duration {
	return min(max(time.Duration(candidates)*p.interval, minRetry), maxRetry)
}
