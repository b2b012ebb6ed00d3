package scheduler

import (
	"sync/atomic"
	"time"

	"agentd/scheduler/core"
)

// threadShare divides threads among the workers that have work. With total 0 it does nothing.
type threadShare struct {
	total int
	busy  atomic.Int32 // workers that have work
}

// each is the number of threads for a worker that has work.
func (s *threadShare) each() int { return max(1, s.total/max(1, int(s.busy.Load()))) }

// shareThreads sets this worker's part of the shared threads for the next step.
func (w *worker) shareThreads() {
	n := w.share.each()
	if w.share.total == 0 || n == w.back.SamplerThreads() {
		return
	}
	if err := w.back.SetThreads(n); err != nil {
		w.log.Warn().Err(err).Int("context", w.index).Int("threads", n).Msg("the number of threads could not be changed; it stays")
		return
	}
	if w.threads != nil {
		w.watchThreads()
	}
}

// startThreads prepares the compute threads. The worker's own thread calls it.
func (w *worker) startThreads() {
	if err := shortSlice(); err != nil {
		w.log.Debug().Err(err).Msg("time slice not changed; latency may rise beside busy programs")
	}
	n := max(w.back.SamplerThreads(), w.share.total)
	if n < 2 {
		return // none waits for another one
	}
	w.threads = core.NewThreads(n, w.cfg.Threads == 0)
	w.watchThreads()
}

// watchThreads measures the threads of the next step.
func (w *worker) watchThreads() {
	if err := w.observer.watch(w.back.ThreadIDs()); err != nil {
		w.stopObserving(err)
	}
}

// observed reports whether the threads of a step wait for each other, and are measured.
func (w *worker) observed() bool { return w.threads != nil && w.back.SamplerThreads() > 1 }

// beginObserve is called before a step.
func (w *worker) beginObserve() {
	switch {
	case !w.observed():
	case w.threads.Brief():
		w.observer.begin(nil)
	default:
		w.observer.begin(func() { w.setBriefWaits(true) })
	}
}

// observe chooses the threads of the next step, and how they wait for each other, by the
// cost of the last one.
func (w *worker) observe(rows int, took time.Duration) {
	if !w.observed() {
		return
	}
	waited, fired, err := w.observer.end()
	if err != nil {
		w.stopObserving(err)
		return
	}
	before, brief := w.threads.Next(), w.threads.Brief()
	w.threads.Observe(core.StepCost{Rows: rows, Time: took, Waited: waited})
	n := w.threads.Next()
	if now := w.threads.Brief(); now != (brief || fired) {
		w.setBriefWaits(now)
	}
	if n == before {
		return
	}
	if err := w.back.SetThreads(n); err != nil {
		w.log.Warn().Err(err).Int("context", w.index).Int("threads", n).Msg("the number of threads could not be changed; it stays")
		w.threads = nil
		return
	}
	w.log.Debug().Int("context", w.index).Int("threads", n).Msg("number of threads changed")
	w.watchThreads() // some of them are new
}

// stopObserving leaves brief waits, which cost little on free processors. Active ones cost
// much beside busy programs.
func (w *worker) stopObserving(err error) {
	w.log.Info().Err(err).Int("context", w.index).Msg("no run delay of threads from the kernel; their waits are brief and their number stays")
	w.threads = nil
	w.setBriefWaits(true)
}

// setBriefWaits is safe for concurrent use.
func (w *worker) setBriefWaits(on bool) {
	err := w.back.SetBriefWaits(on)
	w.log.Debug().Err(err).Int("context", w.index).Bool("brief", on).Msg("waits of compute threads changed")
}
