package scheduler

import (
	"sync"
	"time"
)

// observer measures how long the threads of a step wait for a processor. During a step
// with active waits it also looks at them from time to time: beside other programs a
// single such step can take seconds.
type observer struct {
	mu     sync.Mutex
	delays delays
	// alarm is called at most once in a step, when a thread waits too long. nil: no alarm.
	alarm func()
	armed bool
	fired bool
	began time.Time
	timer *time.Timer
}

// longStep is how long a step runs before the observer looks at its threads, and
// longWait the share of it that a thread may have waited.
const (
	longStep = 15 * time.Millisecond
	longWait = 0.25
)

// watch measures the threads with these ids from now on.
func (o *observer) watch(ids []int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.delays.watch(ids)
}

// begin starts a step. Its alarm is called on another goroutine.
func (o *observer) begin(alarm func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = o.delays.longest(true) // an error is also that of end
	o.alarm, o.armed, o.fired, o.began = alarm, alarm != nil, false, time.Now()
	switch {
	case !o.armed:
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
	if !o.armed {
		return // the step has ended
	}
	waited, err := o.delays.longest(false)
	if err != nil || float64(waited) < longWait*float64(time.Since(o.began)) {
		o.timer.Reset(longStep)
		return
	}
	o.armed, o.fired = false, true
	o.alarm()
}

// end returns how long a thread of the step waited, the one that waited longest, and
// whether the alarm was called.
func (o *observer) end() (waited time.Duration, fired bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
	o.armed = false
	waited, err = o.delays.longest(true)
	return waited, o.fired, err
}

func (o *observer) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
	o.armed = false
	o.delays.close()
}
