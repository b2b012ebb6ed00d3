package scheduler

import (
	"time"
)

// place chooses the context on which a job is done soonest: where the least is
// left to compute, of the work that is there and of the job itself, of whose prompt
// a part may be cached. So requests that share a prefix stay together until the
// others would be done sooner, even though they compute the prefix again. nil: no
// context is left. Engine.mu is held.
func (e *Engine) place(j *job) *worker {
	var best *worker
	least := 0
	now := e.now()
	for pass := range 2 { // first of those that work
		for _, w := range e.workers {
			if !w.health.up(now) && pass == 0 || w.health.lost || j.tried&(1<<w.index) != 0 {
				continue
			}
			if left := w.load + w.cost(j); best == nil || left < least {
				best, least = w, left
			}
		}
		if best != nil {
			break
		}
	}
	return best
}

// cost is how many tokens the job would take here. Engine.mu is held.
func (w *worker) cost(j *job) int {
	prompt := len(j.g.Prompt)
	if w.known != nil {
		prompt -= min(prompt, w.known.match(j.blocks)*prefixBlock)
	}
	return prompt + j.g.N*min(j.g.MaxTokens, usualTokens)
}

// take puts a job into the inbox. Engine.mu is held.
func (w *worker) take(j *job) {
	j.worker, j.cost = w, w.cost(j)
	j.tried |= 1 << w.index
	w.load += j.cost
	if w.known != nil {
		w.known.add(j.blocks)
	}
	w.inbox = append(w.inbox, command{job: j})
	w.poke()
}

// forget takes a job out of the worker's books.
func (w *worker) forget(j *job) {
	delete(w.jobs, j.id)
	w.mu.Lock()
	w.load -= j.cost
	w.mu.Unlock()
}

// handOver gives a job that failed here to another context, where it begins anew. It
// returns false when there is none that has not tried it.
func (w *worker) handOver(j *job) bool {
	if j.fatal > maxFatal {
		return false // it may be what the devices fail of
	}
	w.mu.Lock()
	to := w.place(j)
	stays := to == nil || w.closed || j.cancelled
	w.mu.Unlock()
	if stays || j.again() != nil {
		return false
	}
	delete(w.jobs, j.id)
	w.mu.Lock()
	if w.closed || j.cancelled || to.health.lost { // since
		w.mu.Unlock()
		w.jobs[j.id] = j
		return false
	}
	w.load -= j.cost
	w.moved++
	to.take(j)
	w.mu.Unlock()
	w.log.Warn().Int("from", w.index).Int("to", to.index).Msg("a generation begins again on another context")
	return true
}

// health says whether a context is given work. One whose steps fail again and again
// is left out for a while, then tried again, with twice the pause if it fails; one
// whose device is lost, for good.
type health struct {
	failures int           // steps that failed since one was decoded
	out      time.Time     // until then it is left out
	pause    time.Duration // the last one
	lost     bool
}

func (h *health) up(now time.Time) bool { return !h.lost && !now.Before(h.out) }

// failed counts a step and reports whether the context is out now.
func (h *health) failed(now time.Time, lost bool) bool {
	h.failures++
	h.lost = h.lost || lost
	if h.failures >= maxFailures {
		h.pause = min(max(2*h.pause, minPause), maxPause)
		h.out = now.Add(h.pause)
		h.failures = maxFailures - 1 // the next one is enough
	}
	return !h.up(now)
}

func (h *health) worked() {
	if h.failures > 0 || h.pause > 0 {
		*h = health{lost: h.lost}
	}
}

// worked notes a step that was decoded.
func (w *worker) worked() {
	w.mu.Lock()
	w.health.worked()
	w.mu.Unlock()
}

// broke notes a step that failed. It reports whether the context is out, and
// everything it has should go elsewhere: not while there is nowhere else.
func (w *worker) broke(cause error) bool {
	lost := isLost(cause)
	w.mu.Lock()
	out := w.health.failed(w.now(), lost)
	pause := w.health.pause
	others := false
	for _, o := range w.workers {
		others = others || o != w && o.health.up(w.now())
	}
	w.mu.Unlock()
	switch {
	case lost:
		w.log.Error().Err(cause).Str("device", w.device).Int("context", w.index).Msg("the device failed and is taken out")
	case out && others:
		w.log.Error().Err(cause).Str("device", w.device).Int("context", w.index).Stringer("pause", pause).Msg("steps keep failing: the context is taken out")
	}
	return lost || out && others
}

// isLost says that the worker's device was lost.
func (w *worker) isLost() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.health.lost
}
