package scheduler

import "slices"

// startIsolated gives the next queued request to an empty core, once the one before has
// ended, with Config.BatchInvariant.
func (w *worker) startIsolated() {
	for w.cfg.BatchInvariant && len(w.queue) > 0 && w.core.Idle() {
		r := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		empty := w.back.Forget
		if w.nonFinite {
			empty = w.back.Clear
		}
		if err := empty(); err != nil {
			w.requests[r.id] = r
			w.recordFailure(err)
			w.reset(err)
			return
		}
		w.nonFinite = false
		w.resetCore()
		w.submit(r)
	}
}
