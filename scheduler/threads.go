package scheduler

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentd/scheduler/core"
)

// computeSlice is the time slice that the threads of a step ask the kernel for. Beside a
// busy program the kernel gives each of the two a slice in turn, and a step waits for its
// slowest thread: with the usual 3 ms that is longer than many operations of a model.
// The share of the processor stays the same. Linux 6.12 and later heed it.
const computeSlice = 400 * time.Microsecond

// shortSlice asks for computeSlice for the calling thread and those that it creates.
func shortSlice() error {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL {
		return err // somebody chose another policy for this process
	}
	attr.Runtime = uint64(computeSlice)
	return unix.SchedSetAttr(0, attr, 0)
}

// preemptions is how often a thread of this process lost its processor so far.
func preemptions() int {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0 // then the processors count as free
	}
	return int(use.Nivcsw)
}

// observe chooses the threads of the next step by what the last one took.
func (w *worker) observe(cost core.StepCost) {
	if w.threads == nil {
		return
	}
	before := w.threads.Next()
	w.threads.Observe(cost)
	n := w.threads.Next()
	if n == before {
		return
	}
	if err := w.back.SetThreads(n); err != nil {
		w.log.Warn().Err(err).Int("context", w.index).Int("threads", n).Msg("the number of threads could not be changed; it stays")
		w.threads = nil
		return
	}
	w.log.Debug().Int("context", w.index).Int("threads", n).Int("preempted", cost.Preempted).Msg("threads changed: other programs use the processors, or have stopped")
}
