package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"agentd/internal/tracing"
	"agentd/scheduler"
	"agentd/scheduler/generation"
)

// PauseMode says what a pause does with generations that run. New ones always wait for its end.
type PauseMode string

// The modes.
const (
	PauseWait  PauseMode = "wait"  // they end as usual
	PauseAbort PauseMode = "abort" // they end at once, with the tokens so far
	PauseKeep  PauseMode = "keep"  // they continue after the pause, with the weights that serve then
)

// pause is the pause of a Service, whose mu guards it.
type pause struct {
	mode   PauseMode // "": the service is not paused
	since  time.Time
	aborts int           // pauses of mode abort, so far
	over   chan struct{} // closed unless the service is paused
	quiet  chan struct{} // closed when nothing runs in the pause
}

// neverPaused is a pause that is over.
func neverPaused() pause {
	p := pause{over: make(chan struct{})}
	close(p.over)
	return p
}

// Pause stops the engine, so that the weights can change while nothing is computed. It returns when nothing
// runs; the pause lasts until Resume. After an error there is no pause of this call. The error is an *Error
// or that of ctx.
func (l *Service) Pause(ctx context.Context, mode PauseMode) error {
	if l.cfg.Remote.Enabled() {
		return &Error{NotAllowed, "this server's engines are at other URLs; pause them there"}
	}
	if err := l.changeable(); err != nil {
		return err
	}
	l.mu.Lock()
	p := &l.pause
	if p.mode != "" {
		defer l.mu.Unlock()
		return &Error{Busy, fmt.Sprintf("the server is paused already, in mode %s; POST /v1/resume first", p.mode)}
	}
	p.mode, p.since, p.over, p.quiet = mode, time.Now(), make(chan struct{}), make(chan struct{})
	if mode == PauseAbort {
		p.aborts++
	}
	over, still := p.over, p.quiet
	versions := append(l.replaced[:len(l.replaced):len(l.replaced)], l.current)
	quiet := make([]<-chan struct{}, len(versions))
	for i, v := range versions {
		quiet[i] = v.Engine.Pause(mode != PauseWait)
	}
	l.mu.Unlock()
	l.pauses.WithLabelValues(string(mode)).Inc()
	l.cfg.Log.Info().Str("mode", string(mode)).Msg("paused")
	for i, v := range versions {
		if err := v.until(ctx, quiet[i], over); err != nil {
			l.endPause(over)
			return err
		}
	}
	close(still)
	return nil
}

// PauseAgain is Pause for a client that may repeat itself: in a pause of the same mode it waits until nothing runs.
func (l *Service) PauseAgain(ctx context.Context, mode PauseMode) error {
	l.mu.Lock()
	p := l.pause
	l.mu.Unlock()
	if p.mode != mode {
		return l.Pause(ctx, mode)
	}
	select {
	case <-p.quiet:
		return nil
	case <-p.over:
		return &Error{Busy, "the pause was ended before all running candidates had ended"}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ClearCache frees all cached prefixes. all is false where requests run, whose prefixes stay, or engines at URLs have
// the cache.
func (l *Service) ClearCache(ctx context.Context) (all bool, err error) {
	v, release := l.use()
	defer release()
	if v.Remote != nil {
		return false, nil
	}
	all, err = v.Engine.ClearCache(ctx.Done())
	return all, errors.Join(err, ctx.Err())
}

// until waits for the end of what runs.
func (v *modelVersion) until(ctx context.Context, quiet, over <-chan struct{}) error {
	looks := time.NewTicker(pauseLooks)
	defer looks.Stop()
	for {
		select {
		case <-quiet:
			return nil
		case <-over:
			return &Error{Busy, "the pause was ended before all running candidates had ended"}
		case <-ctx.Done():
			return ctx.Err()
		case <-looks.C:
			if err := v.failure(); err != nil {
				return &Error{Busy, "the server can't pause: " + err.Error()}
			}
		}
	}
}

// Resume ends a pause. Without one it does nothing.
func (l *Service) Resume() { l.endPause(l.Resumed()) }

// Resumed returns a channel that is closed when no pause lasts.
func (l *Service) Resumed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pause.over
}

// endPause ends the pause of a channel over, unless it has ended.
func (l *Service) endPause(over <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.pause
	if p.mode == "" || p.over != over {
		return
	}
	p.mode = ""
	l.current.Engine.Resume() // what replaced models have left goes on with this one
	close(p.over)
	l.cfg.Log.Info().Dur("after", time.Since(p.since)).Msg("resumed")
}

// Paused returns the mode of the pause and how long it has lasted; "": there is none.
func (l *Service) Paused() (mode PauseMode, lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pause.mode != "" {
		lasts = time.Since(l.pause.since)
	}
	return l.pause.mode, lasts
}

// held is an admission whose generations survive pauses. They continue with the model and the adapters that serve
// then.
type held struct {
	*scheduler.Admission
	service *Service
	asked   *adapterUse   // which the requests name
	on      *modelVersion // whose engine it is
	using   *adapterUse   // of on
	aborts  int           // of the service, when it was admitted
	leave   func()        // ends the use of on and using, unless the request itself has them
}

// heldRequest is a request that a pause interrupted.
type heldRequest struct {
	index   int
	request generation.Request
	result  *generation.Result
}

func (h *held) GenerateAll(ctx context.Context, requests []generation.Request, done func(i int, r *generation.Result, err error)) {
	all := make([]heldRequest, len(requests))
	for i := range requests {
		all[i] = heldRequest{index: i, request: requests[i]}
	}
	if h.using != h.asked { // a pause has interrupted what came before
		all = h.renamed(all, h.asked, done)
	}
	labels := h.service.cfg.WeightsDir != "" // else the weights can't change
	for len(all) > 0 {
		var mu sync.Mutex
		var next []heldRequest
		now := make([]generation.Request, len(all))
		for i := range all {
			now[i] = all[i].request
			if watch := now[i].Watch; watch != nil && labels {
				now[i].Watch = func(e generation.Event) {
					if e.Kind == generation.Ended {
						if _, err := h.label(ctx, &now[i], e.Result); err != nil {
							return // the request fails with it
						}
					}
					watch(e)
				}
			}
		}
		h.Admission.GenerateAll(ctx, now, func(i int, r *generation.Result, err error) {
			if r != nil && labels {
				r, err = h.label(ctx, &now[i], r)
			}
			if r == nil || !r.Paused() {
				if under := tracing.Under(ctx, now[i].Context); r != nil && tracing.On(under) {
					phases(under, r)
				}
				done(all[i].index, r, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			next = append(next, heldRequest{all[i].index, all[i].request, r})
		})
		slices.SortFunc(next, func(a, b heldRequest) int { return a.index - b.index })
		if len(next) == 0 || h.wait(ctx, next, done) {
			return
		}
		all = h.resume(next, done)
	}
}

// wait waits for the end of the pause. If ctx ends first, or the requests are aborted, it answers them and returns true.
func (h *held) wait(ctx context.Context, requests []heldRequest, done func(i int, r *generation.Result, err error)) (answered bool) {
	h.service.mu.Lock()
	p := h.service.pause
	h.service.mu.Unlock()
	abort := requests[0].request.Abort // of all: one client has them
	aborted := p.aborts > h.aborts
	select {
	case <-abort: // also where there is no pause
		aborted = true
	default:
	}
	if !aborted {
		select {
		case <-p.over:
			return false
		case <-abort:
			aborted = true
		case <-h.Gone():
			for _, r := range requests {
				done(r.index, nil, h.Refusal())
			}
			return true
		case <-ctx.Done():
		}
	}
	if aborted {
		for _, r := range requests {
			done(r.index, r.result, nil)
		}
		return true
	}
	for _, r := range requests {
		if errors.Is(ctx.Err(), context.Canceled) {
			done(r.index, nil, ctx.Err())
			continue
		}
		for i := range r.result.Completions {
			if c := &r.result.Completions[i]; c.Finish == generation.FinishPaused {
				c.Finish, c.Err = generation.FinishError, ctx.Err()
			}
		}
		done(r.index, r.result, nil)
	}
	return true
}

// resume makes requests of interrupted ones, for the model that serves now. It answers those that can't continue.
func (h *held) resume(requests []heldRequest, done func(i int, r *generation.Result, err error)) []heldRequest {
	v, release := h.service.use()
	if v != h.on {
		moved, err := h.MoveTo(v.Engine)
		if err != nil {
			release()
			for _, r := range requests {
				done(r.index, nil, err)
			}
			return nil
		}
		h.Admission = moved
	}
	before, leave, using := h.using, h.leave, &adapterUse{on: v}
	h.on, h.using = v, using
	h.leave = func() {
		using.end()
		release()
	}
	requests = h.renamed(requests, before, done)
	leave()
	for i := range requests {
		if r := &requests[i]; r.request.Distinct == nil && r.request.Choice == nil { // a search begins again
			r.request.Resume = r.result
		}
	}
	return requests
}

// renamed gives requests the adapters that have the names now which theirs had before. It answers those whose
// adapter was removed.
func (h *held) renamed(requests []heldRequest, before *adapterUse, done func(i int, r *generation.Result, err error)) []heldRequest {
	var kept []heldRequest
	for _, r := range requests {
		name, _ := before.of(r.request.Adapter)
		if name != "" {
			a, ok := h.using.Adapter(name)
			if !ok {
				done(r.index, nil, fmt.Errorf("the adapter %s was removed while the server was paused", name))
				continue
			}
			r.request.Adapter = a.ID
		}
		kept = append(kept, r)
	}
	return kept
}

// label names the weights of a result's new tokens.
func (h *held) label(ctx context.Context, of *generation.Request, r *generation.Result) (*generation.Result, error) {
	version, err := h.on.Weights.Version(context.WithoutCancel(ctx)) // it was known before the weights served
	if err != nil {
		return nil, err
	}
	part := generation.Part{Version: version}
	_, part.Adapter = h.using.of(of.Adapter)
	for i := range r.Completions {
		c := &r.Completions[i]
		part.From = 0
		if of.Resume != nil {
			was := &of.Resume.Completions[i]
			if part.From = len(was.Tokens); was.Finish != generation.FinishPaused {
				continue // it had ended before
			}
		}
		n, last := len(c.Tokens), generation.Part{}
		if c.Stop != "" {
			n++
		}
		if len(c.Parts) > 0 {
			last = c.Parts[len(c.Parts)-1]
		}
		if n > part.From && (last.Version != part.Version || last.Adapter != part.Adapter) {
			c.Parts = append(c.Parts[:len(c.Parts):len(c.Parts)], part)
		}
	}
	return r, nil
}
