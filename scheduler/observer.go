package scheduler

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	// longStep is how long a step runs before the observer looks at its threads, and longWait the
	// share of it that a thread may have waited.
	longStep = 15 * time.Millisecond
	longWait = 0.25
	// maxWatched bounds what watching costs: two microseconds a thread and step.
	maxWatched = 16
)

// observer measures how long the threads of a step wait for a processor, by Linux's schedstat.
// During a step with active waits it also looks at them from time to time: beside other programs a
// single such step can take seconds.
type observer struct {
	mu      sync.Mutex
	threads []watchedThread
	// alarm is called at most once in a step, when a thread waits too long. nil: no alarm, or no step.
	alarm func()
	fired bool
	began time.Time
	timer *time.Timer
}

type watchedThread struct {
	file  *os.File
	total time.Duration // as of the last look
}

// watch measures these threads from now on, and no others.
func (o *observer) watch(ids []int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget()
	for _, id := range ids[:min(len(ids), maxWatched)] {
		f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/schedstat", id))
		if err != nil {
			return err
		}
		o.threads = append(o.threads, watchedThread{file: f})
	}
	_, err := o.longest(true)
	return err
}

// longest returns how long a thread waited since the last call with restart, the one that
// waited longest.
func (o *observer) longest(restart bool) (time.Duration, error) {
	var most time.Duration
	for i := range o.threads {
		t := &o.threads[i]
		total, err := t.read()
		if err != nil {
			return 0, err
		}
		most = max(most, total-t.total)
		if restart {
			t.total = total
		}
	}
	return most, nil
}

// read is how long the thread waited in its life, the second of three numbers. A kernel
// that does not count it has zeros.
func (t *watchedThread) read() (time.Duration, error) {
	var line [80]byte
	n, _ := t.file.ReadAt(line[:], 0) // io.EOF after the line
	fields := bytes.Fields(line[:n])
	if len(fields) != 3 || string(fields[2]) == "0" {
		return 0, fmt.Errorf("%s holds %q", t.file.Name(), line[:n])
	}
	ns, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return time.Duration(ns), err
}

// begin starts a step. Its alarm is called on another goroutine.
func (o *observer) begin(alarm func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = o.longest(true) // an error is also that of end
	o.alarm, o.fired, o.began = alarm, false, time.Now()
	switch {
	case alarm == nil:
	case o.timer == nil:
		o.timer = time.AfterFunc(longStep, o.look)
	default:
		o.timer.Reset(longStep)
	}
}

// look calls the alarm, or comes again.
func (o *observer) look() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.alarm == nil {
		return // the step has ended
	}
	waited, err := o.longest(false)
	if err != nil || float64(waited) < longWait*float64(time.Since(o.began)) {
		o.timer.Reset(longStep)
		return
	}
	o.alarm()
	o.alarm, o.fired = nil, true
}

// end returns how long a thread of the step waited, the one that waited longest, and
// whether the alarm was called.
func (o *observer) end() (waited time.Duration, fired bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.disarm()
	waited, err = o.longest(true)
	return waited, o.fired, err
}

func (o *observer) disarm() {
	if o.timer != nil {
		o.timer.Stop()
	}
	o.alarm = nil
}

func (o *observer) forget() {
	for _, t := range o.threads {
		_ = t.file.Close() // read only
	}
	o.threads = nil
}

func (o *observer) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.disarm()
	o.forget()
}
