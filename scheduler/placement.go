package scheduler

import (
	"errors"
	"time"

	"agentd/llama"
	"agentd/scheduler/core"
)

// workload is what the engine knows of a worker when it places requests.
type workload struct {
	inbox []command
	stats Stats // as of the last step
	load  int   // tokens of its requests, see request.cost
	// assigned are the requests that it has, latest is the adapter of the last one.
	assigned map[*request]struct{}
	latest   core.AdapterID
	// prefixes estimates the contents of its prefix cache. It is nil if the engine has one
	// worker or no cache.
	prefixes *prefixIndex
	health   health
}

// send adds a command to the inbox. Engine.mu is held.
func (w *worker) send(c command) {
	w.inbox = append(w.inbox, c)
	w.wakeUp()
}

// place returns the context on which a request is done soonest: the one with the least left
// to compute, including the request itself without its cached prefix. So requests that share
// a prefix stay together until another context would be sooner even though it computes the
// prefix again. Work of another adapter counts twice: the request shares no step with it. nil: no
// context is left. Engine.mu is held.
func (e *Engine) place(r *request) (best *worker) {
	least, bestUp, now := 0, false, e.now()
	for _, w := range e.workers {
		if w.health.lost || r.tried&(1<<w.index) != 0 {
			continue
		}
		left := w.load + w.cost(r)
		if w.latest != r.gen.Adapter {
			left += w.load
		}
		up := w.health.up(now) // a failing context comes last
		if best == nil || up && !bestUp || up == bestUp && left < least {
			best, least, bestUp = w, left, up
		}
	}
	return best
}

// cost estimates the tokens to compute for the request here. Engine.mu is held.
func (w *worker) cost(r *request) int {
	cached := 0
	if w.prefixes != nil {
		cached = w.prefixes.match(r.blocks) * prefixBlock
	}
	return len(r.gen.Prompt) - cached + r.gen.N*min(r.gen.MaxTokens, typicalTokens)
}

// assign gives a request to a worker. Engine.mu is held.
func (e *Engine) assign(r *request, w *worker) {
	r.worker, r.cost = w, w.cost(r)
	r.tried |= 1 << w.index
	w.assigned[r] = struct{}{}
	w.load += r.cost
	w.latest = r.gen.Adapter
	if w.prefixes != nil {
		w.prefixes.add(r.blocks)
	}
	w.send(command{request: r})
}

// unassign removes a request from the worker.
func (w *worker) unassign(r *request) {
	w.trees.cancel(r)
	delete(w.requests, r.id)
	w.engine.mu.Lock()
	w.load -= r.cost
	delete(w.assigned, r)
	w.engine.undelivered++
	w.engine.mu.Unlock()
}

// retryElsewhere moves a failed request to another context. It returns false if there is none
// that has not tried it.
func (w *worker) retryElsewhere(r *request) bool {
	w.trees.cancel(r)
	id := r.id
	to := w.engine.reassign(r, w)
	if to == nil {
		return false
	}
	delete(w.requests, id)
	w.log.Warn().Int("from", w.index).Int("to", to.index).Msg("retrying generation on another context")
	return true
}

// reassign moves a request to another worker, where it starts again. It returns nil if there
// is none, or if the request may be what makes devices fail.
func (e *Engine) reassign(r *request, from *worker) *worker {
	if r.lostDevices > maxLostDevices {
		return nil
	}
	e.mu.Lock()
	to := e.place(r)
	stays := to == nil || e.closed || r.cancelled
	e.mu.Unlock()
	if stays || r.restart(e.vocab) != nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || r.cancelled || to.health.lost { // since then
		return nil
	}
	from.load -= r.cost
	delete(from.assigned, r)
	e.retried++
	e.assign(r, to)
	return to
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
	stage     stage // of its round, as of the watchdog's last look
}

func (h *health) up(now time.Time) bool {
	return !h.lost && h.stage == onTime && !now.Before(h.downUntil)
}

// failed counts a failed step and reports whether the context is down.
func (h *health) failed(now time.Time, lost bool) (down bool) {
	h.failures++
	h.lost = h.lost || lost
	if h.failures >= maxFailures {
		h.pause = min(max(2*h.pause, minPause), maxPause)
		h.downUntil = now.Add(h.pause)
		h.failures = maxFailures - 1 // after the pause one failure is enough
	}
	return !h.up(now)
}

func (h *health) worked() {
	if h.failures > 0 || h.pause > 0 {
		*h = health{lost: h.lost, stage: h.stage}
	}
}

// recordFailure records a failed step. down: the context is down and all of its requests should move, which needs
// another context that is up. lost: this step lost the device.
func (w *worker) recordFailure(cause error) (down, lost bool) {
	gone, othersUp, e := errors.Is(cause, llama.ErrLost), false, w.engine
	e.mu.Lock()
	lost = gone && !w.health.lost
	down = w.health.failed(e.now(), gone)
	for _, o := range e.workers {
		othersUp = othersUp || o != w && o.health.up(e.now())
	}
	pause := w.health.pause
	e.mu.Unlock()
	switch {
	case gone:
		w.log.Error().Err(cause).Msg("device lost; context disabled")
	case down && othersUp:
		w.log.Error().Err(cause).Stringer("pause", pause).Msg("steps keep failing; context paused")
	}
	return gone || down && othersUp, lost
}
