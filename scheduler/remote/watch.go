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

	"agentd/internal/retry"
	"agentd/scheduler/generation"
)

// watch asks an engine until the Engine is closed: one that gets work, whether it lives, and
// one that gets none, whether it can.
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
			if r.misses > 0 {
				wait = 0
			}
			continue
		}
		err := e.join(r)
		if err != nil {
			e.lost(r, out{err: err, abort: !passes(err)})
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

// lost leaves an engine out until it can join again.
func (e *Engine) lost(r *replica, o out) {
	r.mu.Lock()
	before := r.out
	if before != nil {
		o.abort, o.prove = o.abort || before.abort, o.prove || before.prove
	}
	r.out = &o
	if o.abort {
		r.abort(o.err)
	}
	r.mu.Unlock()
	if before == nil {
		r.look()
	}
	if before != nil && !errors.Is(before.err, errNotAsked) && passes(before.err) == passes(o.err) || e.base.Err() != nil {
		return // it was logged
	}
	if passes(o.err) {
		e.log.Warn().Str("engine", r.url).Err(o.err).Msg("engine unreachable; left out until it answers")
	} else {
		e.log.Error().Str("engine", r.url).Err(o.err).Msg("engine does not fit; left out until it does")
	}
}

// look makes watch look at the engine now.
func (r *replica) look() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// late counts a request whose time ended. moved is what r.moved was when it began. Several in a
// row without a byte from the engine are a lack of progress, although it may answer probes.
// Those with a short time, and those that ended together, say nothing of a slow engine.
func (e *Engine) late(r *replica, moved uint64, took time.Duration) {
	now := time.Now()
	r.mu.Lock()
	if r.moved == moved && took >= e.limits.late && now.Sub(r.lateAt) >= e.limits.probeEvery {
		r.late++
		r.lateAt = now
	}
	n := r.late
	r.mu.Unlock()
	if n >= lateRequests {
		e.lost(r, out{err: &errUnreachable{fmt.Errorf("the time of %d requests ended, and no byte of an answer came meanwhile", n)}, prove: true})
	}
}

// probe asks an engine that gets work whether it lives, and compares it again where another
// process may answer.
func (e *Engine) probe(r *replica) {
	before, path := r.progress(), "/health"
	if r.identity().api == APISGLang { // its /health generates a token, which takes time under load
		path = "/v1/models"
	}
	text, err := e.small(e.tracing(r), r, sent{client: r.probes, method: http.MethodGet, path: path}, e.limits.probe)
	var busy *generation.BusyError
	switch {
	case errors.As(err, new(*silence)):
		if r.misses++; r.progress() != before {
			r.misses = 0 // answers of requests came meanwhile
		}
		if r.misses >= probeMisses {
			r.misses = 0
			e.lost(r, out{err: fmt.Errorf("%s: %w to %d probes in a row, and no byte of another answer", path, err, probeMisses), abort: true, prove: true})
		}
		return
	case errors.As(err, &busy): // agentd's own says whether it will ever go on
		ends := bytes.Contains(text, []byte(`"failed"`)) || bytes.Contains(text, []byte(`"stuck:`)) && e.another(r)
		e.lost(r, out{err: fmt.Errorf("%s: %w: %s", path, busy, errorOf(text)), abort: ends})
	case err != nil:
		e.lost(r, out{err: fmt.Errorf("%s: %w", path, err)})
	case r.stale && r.closes.Load() && e.same(r): // it closes each connection, so a new one says little
		r.stale = false
	case r.stale:
		err := e.join(r)
		if r.misses++; err != nil && passes(err) && r.misses < probeMisses {
			return // it may be busy, and lives
		}
		if err != nil {
			e.lost(r, out{err: err, abort: !passes(err)})
		}
	}
	r.misses = 0
}

// another reports whether an engine beside r gets work.
func (e *Engine) another(r *replica) bool {
	return slices.ContainsFunc(e.replicas, func(other *replica) bool { return other != r && other.available() })
}

// same reports whether an engine describes itself as it did before.
func (e *Engine) same(r *replica) bool {
	id, err := e.describe(e.base, r)
	return err == nil && id == r.identity()
}

// tracing is a context that notes a new connection of the probes.
func (e *Engine) tracing(r *replica) context.Context {
	return httptrace.WithClientTrace(e.base, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		if !c.Reused {
			r.stale = true
		}
	}})
}

// join describes an engine, compares its vocabulary, and gives it work.
func (e *Engine) join(r *replica) error {
	ctx := e.base
	if _, err := e.small(e.tracing(r), r, sent{client: r.probes, method: http.MethodGet, path: "/health"}, e.limits.probe); err != nil {
		return e.explained(fmt.Errorf("/health: %w", err))
	}
	id, err := e.describe(ctx, r)
	if err != nil {
		return e.explained(err)
	}
	if err := e.verify(ctx, r, id); err != nil {
		return e.explained(err)
	}
	if o := r.why(); o != nil && o.prove {
		if err := e.prove(ctx, r, id); err != nil {
			return err
		}
	}
	if err := e.listAdaptersOf(ctx, r, id); err != nil { // they may be others now
		e.log.Warn().Str("engine", r.url).Err(err).Msg("engine does not list its adapters")
	}
	r.stale = false // until another process answers
	e.enter(r, id)
	return nil
}

// enter gives work to an engine that was compared.
func (e *Engine) enter(r *replica, id identity) {
	r.mu.Lock()
	before, was := r.id, r.out
	r.id, r.out, r.late = id, nil, 0
	if r.life.Err() != nil {
		r.life, r.abort = context.WithCancelCause(e.base)
	}
	r.mu.Unlock()
	if was != nil && !errors.Is(was.err, errNotAsked) {
		e.log.Info().Str("engine", r.url).Msg("engine reachable again")
	}
	if before != (identity{}) && before != id {
		e.log.Warn().Str("engine", r.url).Str("model", id.served).Str("model_before", before.served).
			Int("context", id.context).Int("context_before", before.context).
			Int("slots", id.slots).Int("slots_before", before.slots).Msg("engine serves something else than before")
	}
}

// prove wants one token of an engine that made no progress.
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
