package scheduler

import (
	"slices"

	"agentd/scheduler/core"
)

// nextAlone gives the core the next job of the queue, once the one before has
// ended, and an empty cache with it.
func (w *worker) nextAlone() {
	for w.cfg.Alone && len(w.queue) > 0 && w.core.Idle() {
		j := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		empty := w.back.Forget
		if w.dirty {
			empty = w.back.Clear
		}
		if err := empty(); err != nil {
			w.jobs[j.id] = j
			w.broke(err)
			w.reset(err)
			return
		}
		w.dirty = false
		w.newCore()
		w.submit(j)
	}
}

// newCore begins again with an empty cache.
func (w *worker) newCore() {
	w.base = w.total()
	w.core, _ = core.New(w.rules) // the configuration was accepted before
}
