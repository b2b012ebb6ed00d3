package scheduler

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"agentd/scheduler/core"
)

const (
	// computeSlice is the time slice that the threads of a step request from the kernel (Linux 6.12 or
	// later). A thread that shares its processor with another program waits for that one's slice, and the
	// step waits for the thread. The usual slice of 3 ms is longer than many operations of a model.
	// The thread's share of the processor does not change.
	computeSlice = 400 * time.Microsecond
	// longStep is the time after which look checks a step, and longWait the share of that time that a thread
	// may have waited for a processor.
	longStep = 15 * time.Millisecond
	longWait = 0.25
	// maxWatched bounds the watched threads, each of which costs 2 µs in a step.
	maxWatched = 16
)

// threads chooses the compute threads of a context for each step, and how they wait for each other. It measures how
// long they wait for a processor, by Linux's schedstat. It also checks this during a step with active waits: while
// other programs use the processors, a single such step can take seconds.
type threads struct {
	back   backend
	log    zerolog.Logger
	policy *core.Threads // nil if a single thread or a device computes, or waits can't be measured

	mu      sync.Mutex // for look, which runs on another goroutine
	watched []watchedThread
	timer   *time.Timer // calls look
	active  bool        // a step with active waits is running
	ended   bool        // look has switched that step to brief waits
	began   time.Time
	waited  time.Duration // the longest wait of a thread in the last step
}

type watchedThread struct {
	file  *os.File
	total time.Duration // time that it had waited at the last restart, see longest
}

// startThreads prepares the compute threads. It must be called on the worker's thread.
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

// shortSlice requests computeSlice for the calling thread and the threads that it creates.
func shortSlice() error {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL {
		return err // somebody chose another policy for this process
	}
	attr.Runtime = uint64(computeSlice)
	return unix.SchedSetAttr(0, attr, 0)
}

// use makes n threads compute the next steps, and measures them.
func (t *threads) use(n int) {
	ids, err := t.back.UseThreads(n)
	if err != nil {
		t.log.Warn().Err(err).Int("threads", n).Msg("the number of threads could not be changed; it stays")
		t.policy = nil
		return
	}
	t.close()
	for _, id := range ids[:min(len(ids), maxWatched)] {
		f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/schedstat", id))
		if err != nil {
			t.stop(err)
			return
		}
		t.watched = append(t.watched, watchedThread{file: f})
	}
	if _, err := t.longest(true); err != nil {
		t.stop(err)
	}
}

// longest returns the longest time that a thread waited for a processor since the last call with restart. During a step
// mu must be held. schedstat has three numbers, of which the second is a thread's total wait in ns; they are zero
// where the kernel does not count.
func (t *threads) longest(restart bool) (most time.Duration, err error) {
	var line [80]byte
	for i := range t.watched {
		thread := &t.watched[i]
		n, _ := thread.file.ReadAt(line[:], 0) // io.EOF after the line
		fields := bytes.Fields(line[:n])
		if len(fields) != 3 || string(fields[2]) == "0" {
			return 0, fmt.Errorf("%s holds %q", thread.file.Name(), line[:n])
		}
		total, err := strconv.ParseInt(string(fields[1]), 10, 64)
		if err != nil {
			return 0, err
		}
		most = max(most, time.Duration(total)-thread.total)
		if restart {
			thread.total = time.Duration(total)
		}
	}
	return most, nil
}

// begin begins to measure a step.
func (t *threads) begin() {
	if t.policy == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.longest(true) // an error is also that of end
	t.active, t.ended, t.began = !t.policy.Brief() && t.back.SamplerThreads() > 1, false, time.Now()
	switch {
	case !t.active:
	case t.timer == nil:
		t.timer = time.AfterFunc(longStep, t.look)
	default:
		t.timer.Reset(longStep)
	}
}

// look switches the running step to brief waits if a thread waits too long, else it schedules itself again.
func (t *threads) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.active {
		return // the step has ended
	}
	waited, err := t.longest(false)
	if err != nil || float64(waited) < longWait*float64(time.Since(t.began)) {
		t.timer.Reset(longStep)
		return
	}
	t.setBriefWaits(true)
	t.active, t.ended = false, true
}

// end chooses the threads of the next step, and how they wait for each other, by the cost of the step that took
// so long. rows is 0 for a step that failed.
func (t *threads) end(rows int, took time.Duration) {
	if t.policy == nil {
		return
	}
	t.mu.Lock()
	if t.timer != nil {
		t.timer.Stop()
	}
	t.active = false
	var err error
	t.waited, err = t.longest(true)
	t.mu.Unlock()
	switch {
	case rows == 0:
		return
	case err != nil:
		t.stop(err)
		return
	}
	before, brief := t.policy.Next(), t.policy.Brief() || t.ended
	t.policy.Observe(core.StepCost{Rows: rows, Time: took, Waited: t.waited})
	if now := t.policy.Brief(); now != brief {
		t.setBriefWaits(now)
	}
	if n := t.policy.Next(); n != before {
		t.log.Debug().Int("threads", n).Msg("number of threads changes")
		t.use(n)
	}
}

// stop ends the measuring and leaves brief waits: they cost little on free processors, while active waits
// cost much beside busy programs.
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

// close closes the files of the watched threads.
func (t *threads) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
	t.active = false
	for _, w := range t.watched {
		_ = w.file.Close() // read only
	}
	t.watched = nil
}
