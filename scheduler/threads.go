package scheduler

import (
	"time"

	"github.com/rs/zerolog"

	"agentd/scheduler/core"
)

// threads chooses the compute threads of a context for each step, and how they wait for each other.
type threads struct {
	back     backend
	log      zerolog.Logger
	policy   *core.Threads // nil: a single thread computes, or a device, or the delays are not known
	observer observer
}

// startThreads prepares the compute threads. The worker's own thread calls it.
func startThreads(w *worker) *threads {
	t := &threads{back: w.back, log: w.log}
	if err := shortSlice(); err != nil {
		t.log.Debug().Err(err).Msg("time slice not changed; latency may rise beside busy programs")
	}
	if n := t.back.SamplerThreads(); n > 1 { // else none waits for another one
		t.policy = core.NewThreads(n, w.cfg.Threads == 0)
		t.use(n)
	}
	return t
}

// use makes n threads compute the next steps, and measures them.
func (t *threads) use(n int) {
	ids, err := t.back.UseThreads(n)
	if err != nil {
		t.log.Warn().Err(err).Int("threads", n).Msg("the number of threads could not be changed; it stays")
		t.policy = nil
		return
	}
	if t.policy == nil {
		return
	}
	if err := t.observer.watch(ids); err != nil {
		t.stop(err)
	}
}

// begin begins to measure a step.
func (t *threads) begin() {
	if t.policy == nil {
		return
	}
	var alarm func()
	if !t.policy.Brief() && t.back.SamplerThreads() > 1 {
		alarm = func() { t.setBriefWaits(true) }
	}
	t.observer.begin(alarm)
}

// end chooses the threads of the next step, and how they wait for each other, by the cost of this
// one. rows is 0 for a step that failed.
func (t *threads) end(rows int, took time.Duration) {
	if t.policy == nil {
		return
	}
	waited, fired, err := t.observer.end()
	switch {
	case rows == 0:
		return
	case err != nil:
		t.stop(err)
		return
	}
	before, brief := t.policy.Next(), t.policy.Brief()
	t.policy.Observe(core.StepCost{Rows: rows, Time: took, Waited: waited})
	if now := t.policy.Brief(); now != (brief || fired) {
		t.setBriefWaits(now)
	}
	if n := t.policy.Next(); n != before {
		t.log.Debug().Int("threads", n).Msg("number of threads changes")
		t.use(n)
	}
}

// stop leaves brief waits, which cost little on free processors. Active ones cost much beside busy
// programs.
func (t *threads) stop(err error) {
	t.log.Info().Err(err).Msg("no run delay of threads from the kernel; their waits are brief and their number stays")
	t.policy = nil
	t.setBriefWaits(true)
}

// setBriefWaits is safe for concurrent use.
func (t *threads) setBriefWaits(on bool) {
	err := t.back.SetBriefWaits(on)
	t.log.Debug().Err(err).Bool("brief", on).Msg("waits of compute threads changed")
}

func (t *threads) close() { t.observer.close() }
