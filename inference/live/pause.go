package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentd/internal/base/tracing"
	"agentd/scheduler"
	"agentd/scheduler/generation"
)

// PauseMode is what a pause does with running generations. New ones always wait for its end.
type PauseMode string

// Modes of a pause. Running generations
const (
	PauseWait  PauseMode = "wait"  // end as usual
	PauseAbort PauseMode = "abort" // end at once, with the tokens so far
	PauseKeep  PauseMode = "keep"  // continue after the pause, with the weights that serve then
)

// pause is the state of a Service's pause; Service.mu guards it.
type pause struct {
	mode   PauseMode // "": the service is not paused
	since  time.Time
	aborts int           // number of pauses with PauseAbort so far
	over   chan struct{} // closed unless the service is paused
	quiet  chan struct{} // closed when nothing runs any more
}

// neverPaused returns the state without a pause.
func neverPaused() pause {
	p := pause{over: make(chan struct{})}
	close(p.over)
	return p
}

// Pause stops the engine, so that the weights can change while nothing is computed. It returns when nothing runs; the
// pause lasts until Resume. The error is an *Error or ctx's; then this call has left no pause.
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

// PauseAgain is Pause for clients that repeat the call: in a pause of the same mode it waits until nothing runs.
func (l *Service) PauseAgain(ctx context.Context, mode PauseMode) error {
	l.mu.Lock()
	p := l.pause
	l.mu.Unlock()
	if p.mode != mode {
		return l.Pause(ctx, mode)
	}
	v, release := l.use()
	defer release()
	return v.until(ctx, p.quiet, p.over)
}

// ClearCache frees all cached prefixes. all is false if requests run, whose prefixes stay, or if the cache is that of
// engines at URLs.
func (l *Service) ClearCache(ctx context.Context) (all bool, err error) {
	v, release := l.use()
	defer release()
	if v.Remote != nil {
		return false, nil
	}
	all, err = v.Engine.ClearCache(ctx.Done())
	return all, errors.Join(err, ctx.Err())
}

// until waits until quiet is closed. The error is an *Error if the pause ends first or a step is stuck, else ctx's.
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

// Resumed returns a channel that is closed when there is no pause.
func (l *Service) Resumed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pause.over
}

// endPause ends the pause whose channel is over, unless it has ended.
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

// Paused returns the mode of the pause, "" without one, and how long it has lasted.
func (l *Service) Paused() (mode PauseMode, lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pause.mode != "" {
		lasts = time.Since(l.pause.since)
	}
	return l.pause.mode, lasts
}

// held is an admission that is its own scheduler.Host: after a pause its generations continue with the model and
// adapters that serve then.
type held struct {
	*scheduler.Admission
	service *Service
	asked   *adapterUse   // the adapters that the request names
	on      *modelVersion // the model that computes
	using   *adapterUse   // the adapters of on
	aborts  int           // pause.aborts at the admission
	leave   func()        // releases on and using, unless they are the request's own
}

func (h *held) GenerateAll(ctx context.Context, requests []generation.Request, done func(i int, r *generation.Result, err error)) {
	h.Admission.GenerateAll(ctx, requests, func(i int, r *generation.Result, err error) {
		if under := tracing.Under(ctx, requests[i].Context); r != nil && !r.Paused() && tracing.On(under) {
			phases(under, r)
		}
		done(i, r, err)
	})
}

// Paused implements scheduler.Host.
func (h *held) Paused() (over <-chan struct{}, aborted bool) {
	h.service.mu.Lock()
	defer h.service.mu.Unlock()
	p := &h.service.pause
	return p.over, p.aborts > h.aborts
}

// Next implements scheduler.Host.
func (h *held) Next() *scheduler.Engine {
	v, release := h.service.use()
	h.leave()
	using := &adapterUse{on: v}
	h.on, h.using = v, using
	h.leave = func() {
		using.end()
		release()
	}
	return v.Engine
}

// Adapt implements scheduler.Host.
func (h *held) Adapt(r *generation.Request) error {
	name, _ := h.asked.of(r.Adapter)
	if name == "" || h.using == h.asked {
		return nil
	}
	a, ok := h.using.Adapter(name)
	if !ok {
		return fmt.Errorf("the adapter %s was removed while the server was paused", name)
	}
	r.Adapter = a.ID
	return nil
}

// Label implements scheduler.Host. It does nothing if the weights can't change.
func (h *held) Label(ctx context.Context, of *generation.Request, r *generation.Result) error {
	if h.service.cfg.WeightsDir == "" {
		return nil
	}
	version, err := h.on.Weights.Version(context.WithoutCancel(ctx)) // it was known before the weights served
	if err != nil {
		return err
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
	return nil
}
