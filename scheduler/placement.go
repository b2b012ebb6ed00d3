package scheduler

import (
	"errors"
	"slices"
	"time"

	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// workload is the state of a worker by which the engine places requests.
type workload struct {
	inbox []command
	stats Stats // as of the last step
	load  int   // tokens of its requests, see request.cost
	// assigned are the worker's requests; latest is the adapter of the last assigned one.
	assigned map[*request]struct{}
	latest   core.AdapterID
	// prefixes estimates the contents of its prefix cache. It is nil if the engine has one
	// worker or no cache.
	prefixes *prefixIndex
	health   health
}

// assign gives a request to the context where it will end soonest: the one with the fewest tokens left to compute,
// including the request's own without its cached prefix. So requests that share a prefix stay together until another
// context is sooner although it computes the prefix again. Tokens of another adapter count twice, since the request
// shares no step with them.
//
// It returns false if no context takes the request, see takes for up. While the engine is paused, it pauses
// the request instead. Engine.mu is held.
func (e *Engine) assign(r *request, up bool) bool {
	if e.pausing != notPaused {
		r.pause()
		close(r.done)
		return true
	}
	least, bestUp, now := 0, false, e.now()
	for _, w := range e.workers {
		if !w.takes(r, up, now) {
			continue
		}
		own := len(r.gen.Prompt) + r.gen.N*min(r.gen.MaxTokens, typicalTokens)
		if w.prefixes != nil {
			own -= w.prefixes.match(r.blocks) * prefixBlock
		}
		left := w.load + own
		if w.latest != r.gen.Adapter {
			left += w.load
		}
		isUp := w.health.up(now) // a failing context comes last
		if r.worker == nil || isUp && !bestUp || isUp == bestUp && left < least {
			least, bestUp, r.worker, r.cost = left, isUp, w, own
		}
	}
	w := r.worker
	if w == nil {
		return false
	}
	r.tried |= 1 << w.index
	w.assigned[r] = struct{}{}
	w.load += r.cost
	w.latest = r.gen.Adapter
	if w.prefixes != nil {
		w.prefixes.add(r.blocks)
	}
	w.send(command{kind: compute, request: r})
	return true
}

// takes reports whether a context can compute a request: it is not lost and has not had the request before. With up
// it must be up, too. Engine.mu is held.
func (w *worker) takes(r *request, up bool, now time.Time) bool {
	return !w.health.lost && r.tried&(1<<w.index) == 0 && (!up || w.health.up(now))
}

// resubmit submits a request to another context, because its context failed (ended) or is stuck. It returns the new
// request, or r if no other context can take it now.
func (e *Engine) resubmit(r *request, ended bool) *request {
	e.mu.Lock()
	takes := func(w *worker) bool { return w.takes(r, !ended, e.now()) }
	goes := !e.closed && slices.ContainsFunc(e.workers, takes)
	e.mu.Unlock()
	if !goes {
		return r
	}
	next, err := e.newRequest(r.gen)
	if err != nil {
		return r // for lack of memory; it was made before
	}
	next.times.Submitted = r.times.Submitted
	if ended {
		next.times, next.lostDevices = r.times, r.lostDevices
	}
	if r.gen.Stream {
		r.receive(e.vocab)
		r.gen.Watch(generation.Event{Kind: generation.Restarted})
		for i := range next.candidates {
			if begun := next.candidates[i].Tokens; len(begun) > 0 {
				next.progress(i, begun, 0)
			}
		}
	}
	e.mu.Lock()
	next.tried, next.admission, next.places = r.tried, r.admission, live(&r.gen)
	// Others may have been placed since then.
	if e.closed || !ended && r.worker.health.stage != stuck || !e.assign(next, !ended) {
		e.mu.Unlock()
		next.close()
		return r
	}
	r.admission.giveBack(r.places - next.places) // takes places again for candidates that had ended
	r.places = 0
	e.retried++
	e.calls.Add(1) // for what ends below
	e.mu.Unlock()
	e.end(r, cancel)
	go func() { // a stuck worker may use the samplers until then
		<-r.done
		r.close()
		e.calls.Done()
	}()
	if next.worker != nil { // it is not paused
		e.log.Warn().Int("from", r.worker.index).Int("to", next.worker.index).Msg("retrying generation on another context")
	}
	return next
}

// health is the state of a context:
//
//	       failures >= maxFailures              pause over
//	up ----------------------------> paused --------------> up, one failure pauses again,
//	 |                                  |                   twice as long; a success resets
//	 +---------- device lost -----------+----> lost, for good
type health struct {
	failures  int       // failed steps since the last success
	downUntil time.Time // end of the pause
	pause     time.Duration
	lost      bool
	stage     stage // of its round, set by the watchdog
}

func (h *health) up(now time.Time) bool {
	return !h.lost && h.stage == onTime && !now.Before(h.downUntil)
}

// recordFailure records a failed step. down: the context is down, another one is up, and all of its requests should
// move. lost: this step lost the device.
func (w *worker) recordFailure(cause error) (down, lost bool) {
	gone, e := errors.Is(cause, llama.ErrLost), w.engine
	e.mu.Lock()
	h, now := &w.health, e.now()
	lost = gone && !h.lost
	h.lost = h.lost || gone
	if h.failures++; h.failures >= maxFailures {
		h.pause = min(max(2*h.pause, minPause), maxPause)
		h.downUntil = now.Add(h.pause)
		h.failures = maxFailures - 1 // after the pause one failure is enough
	}
	down = !h.up(now)
	othersUp := slices.ContainsFunc(e.workers, func(o *worker) bool { return o != w && o.health.up(e.now()) })
	pause := h.pause
	e.mu.Unlock()
	switch {
	case gone:
		w.log.Error().Err(cause).Msg("device lost; context disabled")
	case down && othersUp:
		w.log.Error().Err(cause).Stringer("pause", pause).Msg("steps keep failing; context paused")
	}
	return gone || down && othersUp, lost
}
