package scheduler

import (
	"context"
	"sync"
	"time"

	"agentd/scheduler/generation"
)

// stage classifies how long a worker's round takes.
type stage int

const (
	onTime stage = iota
	late         // longer than any before: other contexts get new work
	stuck        // longer than any that may still end: other contexts get its work, too
)

// rounds measures the rounds of a worker: commands, a step and answers, with all native calls. Time is counted
// by the watchdog's ticks, so a round is not stuck because the process was stopped or the machine slept.
type rounds struct {
	batch     int // the most rows that a step may have
	abandon   sync.Once
	abandoned chan struct{} // closed when the engine is closed and the worker is stuck

	mu      sync.Mutex
	running bool
	ended   bool // a round has ended since the last tick
	began   time.Time
	spent   time.Duration // time of this round, as counted by the watchdog
	stage   stage
	longest time.Duration // time of the longest round with a step so far
	rows    int           // rows of the largest step so far
}

// begin starts a round.
func (r *rounds) begin(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running, r.began = true, now
}

// end ends a round. rows is the number of rows of its step, 0 without one.
func (r *rounds) end(now time.Time, rows int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rows > 0 {
		// A step that froze for a while does not make the bound longer than it was by more than its factor.
		took := min(now.Sub(r.began), r.spent+2*watchInterval, r.bound())
		r.longest, r.rows = max(r.longest, took), max(r.rows, rows)
	}
	r.running, r.ended, r.spent = false, true, 0
}

// bound returns the time after which a round is stuck, from the longest one so far. More is allowed while no step
// had as many rows as one may have.
func (r *rounds) bound() time.Duration {
	if r.longest == 0 {
		return stuckFirst // it may read all weights from a disk
	}
	follows := stuckFactor * r.longest
	return max(stuckFloor, follows, min(stuckFirst, follows*time.Duration(r.batch/r.rows)))
}

// tick adds the time since the last tick, and returns the stage before and now, and the time of the round. waiting:
// there are commands that no round has taken.
func (r *rounds) tick(since time.Duration, waiting bool) (before, now stage, spent time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = r.stage
	if r.ended || !r.running && !waiting {
		r.ended, r.stage, r.spent = false, onTime, 0
		return before, onTime, 0
	}
	r.spent += min(since, watchInterval)
	switch {
	case r.spent >= r.bound():
		r.stage = stuck
	case r.longest > 0 && r.spent >= max(lateFloor, r.longest):
		r.stage = max(r.stage, late)
	}
	return before, r.stage, r.spent
}

// watch calls look for each worker, each watchInterval until ctx ends.
func (e *Engine) watch(ctx context.Context) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			now := time.Now()
			for _, w := range e.workers {
				e.look(w, now.Sub(last))
			}
			last = now
		}
	}
}

// look adds the time since the last look to a worker's round, and acts on its stage. It calls no native code.
func (e *Engine) look(w *worker, since time.Duration) {
	e.mu.Lock()
	waiting := len(w.inbox) > 0
	e.mu.Unlock()
	before, now, spent := w.rounds.tick(since, waiting)
	e.mu.Lock()
	w.health.stage = now
	if now == stuck {
		for r := range w.assigned { // whose callers resubmit them
			if !r.gen.Stream { // streamed tokens can't be taken back while the worker may still continue
				signal(r.leave)
			}
		}
		if before != stuck {
			e.stuckSteps++
		}
		if e.closed {
			w.rounds.abandon.Do(func() { close(w.rounds.abandoned) })
		}
	}
	trying := e.trying
	e.mu.Unlock()
	if now == before {
		return
	}
	log := w.log
	hang, what := &generation.StuckError{Contexts: []int{w.index}}, "a step does not end: a thread or the device hangs, and requests on this context wait"
	if trying {
		log = e.log.With().Str("device", w.Device).Logger()
		hang, what = &generation.StuckError{Loading: w.Device}, "the first step of weights that are being loaded does not end: a thread or the device hangs"
	}
	switch now {
	case onTime:
		log.Warn().Msg("the step has ended after all")
	case late:
		log.Warn().Stringer("after", spent).Msg("a step takes longer than any before")
	case stuck:
		log.Error().Stringer("after", spent).Msg(what)
		if e.cfg.OnStuck != nil {
			e.cfg.OnStuck(hang)
		}
	}
}
