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
	// computeSlice is the time slice that the threads of a step ask the kernel for. Beside a
	// busy program the kernel gives each of the two a slice in turn, and a step waits for its
	// slowest thread. The usual slice of 3 ms is longer than many operations of a model.
	// The share of the processor stays the same. Linux 6.12 and later heed it.
	computeSlice = 400 * time.Microsecond
	// longStep is how long a step runs before look comes, and longWait the share of it that a thread
	// may have waited.
	longStep = 15 * time.Millisecond
	longWait = 0.25
	// maxWatched bounds what watching costs: two microseconds a thread and step.
	maxWatched = 16
)

// threads chooses the compute threads of a context for each step, and how they wait for each other. It
// measures how long they wait for a processor, by Linux's schedstat. During a step with active waits it
// also looks at them from time to time: beside other programs a single such step can take seconds.
type threads struct {
	back   backend
	log    zerolog.Logger
	policy *core.Threads // nil: a single thread computes, or a device, or the delays are not known

	mu      sync.Mutex // for look, which runs on another goroutine
	watched []watchedThread
	timer   *time.Timer // calls look
	active  bool        // a step with active waits computes
	ended   bool        // look has ended its active waits
	began   time.Time
	waited  time.Duration // in the last step, by the thread that waited longest
}

type watchedThread struct {
	file  *os.File
	total time.Duration // as of the last look
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

// shortSlice asks for computeSlice for the calling thread and those that it creates.
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

// longest returns how long a thread waited since the last call with restart, the one that waited longest. mu is held
// during a step. Of the three numbers in a file the second is how long the thread waited in its life. A kernel that
// does not count it has zeros.
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

// look ends the active waits of a step in which a thread waits too long, or comes again.
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

// end chooses the threads of the next step, and how they wait for each other, by the cost of this
// one. rows is 0 for a step that failed.
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

// close ends the measuring of these threads.
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
