package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"time"

	"agentd/internal/base/retry"
	"agentd/scheduler/generation"
)

// watch runs until the Engine is closed. It probes an engine that gets work, and lets one without work join.
func (e *Engine) watch(r *replica) {
	var asked time.Time
	wait, failures := time.Duration(0), 0
	for {
		select {
		case <-e.base.Done():
			return
		case <-r.wake:
			if !r.available() { // a request asks for it, or it was just lost
				wait = e.limits.minBackoff - time.Since(asked)
				continue
			}
			// A connection closed: another process may answer soon. Some engines close each one.
			if wait = e.limits.probeEvery - time.Since(asked); wait > 0 {
				continue
			}
		case <-time.After(wait):
		}
		asked = time.Now()
		if r.available() {
			e.probe(r)
			wait, failures = e.limits.probeEvery, 0
			if r.now() == doubtful {
				wait = 0
			}
			continue
		}
		err := e.join(r)
		if err != nil {
			e.lost(r, joinEvent(err), err)
			failures++
			wait = retry.Backoff(failures, e.limits.minBackoff, e.limits.maxBackoff, 0)
		} else {
			wait = e.limits.probeEvery
		}
		select { // Start waits for it
		case e.joined <- joined{r, err}:
		case <-e.started:
		case <-e.base.Done():
		}
	}
}

// joinEvent returns the event of an engine that could not join because of err.
func joinEvent(err error) event {
	if temporary(err) {
		return gone
	}
	return unfit
}

// lost makes the transition of an event after which an engine gets no work, and logs it.
func (e *Engine) lost(r *replica, ev event, err error) {
	r.mu.Lock()
	was, before := r.on(ev, err)
	r.mu.Unlock()
	if was.works() {
		r.wakeUp()
	}
	if (was == out || was == frozen) && temporary(before) == temporary(err) || e.base.Err() != nil {
		return // it was logged
	}
	if temporary(err) {
		e.log.Warn().Str("engine", r.url).Err(err).Msg("engine unreachable; left out until it answers")
	} else {
		e.log.Error().Str("engine", r.url).Err(err).Msg("engine does not fit; left out until it does")
	}
}

// wakeUp makes watch probe the engine now.
func (r *replica) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// late counts a request that timed out. received is r.received at its begin. After lateRequests in a row without a byte
// from the engine it is frozen, even if it answers probes. Requests with a short timeout don't count, and requests
// that time out together count as one.
func (e *Engine) late(r *replica, received uint64, took time.Duration) {
	now := time.Now()
	r.mu.Lock()
	if r.received == received && took >= e.limits.late && now.Sub(r.lateAt) >= e.limits.probeEvery {
		r.late++
		r.lateAt = now
	}
	n := r.late
	r.mu.Unlock()
	if n >= lateRequests {
		e.lost(r, stalled, &errUnreachable{fmt.Errorf("the time of %d requests ended, and no byte of an answer came meanwhile", n)})
	}
}

// probe sends a probe to an engine that gets work. If another process may answer, it compares the engine again.
func (e *Engine) probe(r *replica) {
	was, before, path := r.now(), r.progress(), "/health"
	if r.identity().api == APISGLang { // its /health generates a token, which takes time under load
		path = "/v1/models"
	}
	text, err := e.small(e.probeContext(r), r, sent{client: r.probes, method: http.MethodGet, path: path}, e.limits.probe)
	var refused *generation.BusyError
	now := r.now()
	switch {
	case errors.As(err, new(*silence)) && r.progress() != before:
		r.note(active)
	case errors.As(err, new(*silence)) && was == doubtful:
		e.lost(r, silent, fmt.Errorf("%s: %w to 2 probes in a row, and no byte of another answer", path, err))
	case errors.As(err, new(*silence)):
		r.note(missed)
	case errors.As(err, &refused): // agentd's own says whether it will ever go on
		ev, others := gone, func(o *replica) bool { return o != r && o.available() }
		if bytes.Contains(text, []byte(`"failed"`)) ||
			bytes.Contains(text, []byte(`"stuck:`)) && slices.ContainsFunc(e.replicas, others) {
			ev = unfit
		}
		e.lost(r, ev, fmt.Errorf("%s: %w: %s", path, refused, errorOf(text)))
	case err != nil:
		e.lost(r, gone, fmt.Errorf("%s: %w", path, err))
	case now != replaced && now != doubtful:
	case r.closes.Load() && e.unchanged(r): // it closes each connection, so a new one says little
		r.note(confirmed)
	default:
		switch err := e.join(r); {
		case err == nil:
		case now == replaced && temporary(err): // it may be busy, and lives
			r.note(missed)
		default:
			e.lost(r, joinEvent(err), err)
		}
	}
}

// unchanged reports whether an engine describes itself as before.
func (e *Engine) unchanged(r *replica) bool {
	id, err := e.describe(e.base, r)
	return err == nil && id == r.identity()
}

// probeContext returns a context for a probe, in which a new connection is the event reconnected.
func (e *Engine) probeContext(r *replica) context.Context {
	return httptrace.WithClientTrace(e.base, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		if !c.Reused {
			r.note(reconnected)
		}
	}})
}

// join gives work to an engine, after it has described itself and its vocabulary was compared.
func (e *Engine) join(r *replica) error {
	ctx := e.base
	if _, err := e.small(e.probeContext(r), r, sent{client: r.probes, method: http.MethodGet, path: "/health"}, e.limits.probe); err != nil {
		return e.withAdvice(fmt.Errorf("/health: %w", err))
	}
	id, err := e.describe(ctx, r)
	if err != nil {
		return e.withAdvice(err)
	}
	if err := e.verify(ctx, r, id); err != nil {
		return e.withAdvice(err)
	}
	if r.now() == frozen {
		if err := e.prove(ctx, r, id); err != nil {
			return err
		}
	}
	if err := e.listAdaptersOf(ctx, r, id); err != nil { // they may be others now
		e.log.Warn().Str("engine", r.url).Err(err).Msg("engine does not list its adapters")
	}
	e.enter(r, id)
	return nil
}

// enter sets the identity of an engine that was compared, and gives it work.
func (e *Engine) enter(r *replica, id identity) {
	r.mu.Lock()
	before := r.id
	was, _ := r.on(fits, nil)
	r.id, r.late = id, 0
	if r.life.Err() != nil {
		r.life, r.end = context.WithCancelCause(e.base)
	}
	r.mu.Unlock()
	if was == out || was == frozen {
		e.log.Info().Str("engine", r.url).Msg("engine reachable again")
	}
	if before != (identity{}) && before != id {
		e.log.Warn().Str("engine", r.url).Str("model", id.served).Str("model_before", before.served).
			Int("context", id.context).Int("context_before", before.context).
			Int("slots", id.slots).Int("slots_before", before.slots).Msg("engine serves something else than before")
	}
}

// prove lets a frozen engine generate one token.
func (e *Engine) prove(ctx context.Context, r *replica, id identity) error {
	prompt, err := e.model.Tokenize("the")
	if err != nil {
		return err
	}
	c := call{Request: &generation.Request{Prompt: prompt, Params: generation.Params{N: 1, MaxTokens: 1}}, model: id.served, n: 1, ends: e.model.Ends(), loras: loras(e.adapters.of(r), "")}
	api := dialectOf(id)
	body, err := api.body(&c)
	if err != nil {
		return err
	}
	if _, err = e.small(ctx, r, sent{client: e.client, method: http.MethodPost, path: api.path(), body: body}, e.limits.prove); err != nil {
		return fmt.Errorf("one token: %w", err)
	}
	return nil
}
