package core

import "time"

// Threads decides how many threads compute the next step. Where other programs
// use the processors too, each operation of the model waits for the slowest
// thread, and fewer threads can be faster. Steps in which a thread lost its
// processor start a trial: blocks of steps with another count of threads, in
// turns with blocks of the present one. The faster count stays.
//
// It has no clock: what a step took is told to Observe. The zero value is not
// usable; see [NewThreads].
type Threads struct {
	most int // threads on free processors
	now  int
	wait int // steps until the next trial may start
	gap  int // steps between two trials
	// settled is for how many steps now has been the count.
	settled int
	// pressure is the share of the latest steps in which a thread lost its
	// processor, from 0 to 1, a moving average.
	pressure float64
	lower    bool // the next trial tries fewer threads, where both are possible
	trial    trial
}

// StepCost is the time of a step.
type StepCost struct {
	Rows int           // computed tokens
	Time time.Duration // to compute and sample them
	// Preempted is how often a thread of the process lost its processor to
	// another one in this time.
	Preempted int
}

// trial compares two counts of threads.
type trial struct {
	steps int    // that are left; 0: no trial
	count [2]int // of threads: the present one, the other one
	rows  [2]int
	time  [2]time.Duration
}

// NewThreads starts with most threads, at least 1.
func NewThreads(most int) *Threads {
	most = max(1, most)
	return &Threads{most: most, now: most, gap: trialGap, wait: trialFirst}
}

// Next is the number of threads for the next step.
func (t *Threads) Next() int { return t.now }

// Observe takes what the last step took, with Next threads.
func (t *Threads) Observe(s StepCost) {
	if t.most == 1 || s.Rows == 0 {
		return
	}
	t.pressure -= t.pressure / pressureSteps
	if s.Preempted > 0 {
		t.pressure += 1.0 / pressureSteps
	}
	if t.trial.steps > 0 {
		t.try(s)
		return
	}
	t.wait--
	t.settled++
	switch {
	case t.now < t.most && t.pressure < calmPressure && t.settled >= calmSteps:
		t.now = t.more() // the processors are free
		t.gap, t.wait, t.settled = trialGap, calmSteps, 0
	case t.wait > 0:
	case t.now == t.most && t.pressure < trialPressure: // nothing to gain
	case t.now == t.most || t.lower && t.now > 1:
		t.start(t.fewer())
	default:
		t.start(t.more())
	}
}

func (t *Threads) fewer() int { return max(1, t.now-max(1, t.now/threadStride)) }

func (t *Threads) more() int { return min(t.most, t.now+max(1, t.now/threadStride)) }

func (t *Threads) start(other int) {
	t.trial = trial{steps: 2 * trialBlocks * trialBlock, count: [2]int{t.now, other}}
	t.now = other
}

// try counts a step of a trial. The trial ends with its last step, or after two
// blocks when the other count is far slower.
func (t *Threads) try(s StepCost) {
	r := &t.trial
	side := 0
	if t.now == r.count[1] {
		side = 1
	}
	if r.steps%trialBlock != 0 { // the first step of a block pays for the change
		r.rows[side] += s.Rows
		r.time[side] += s.Time
	}
	r.steps--
	if r.steps%trialBlock != 0 {
		return
	}
	t.now = r.count[1-side]
	// The other count's rows a second over the present one's.
	gain := float64(r.rows[1]) * float64(r.time[0]) / max(1, float64(r.rows[0])*float64(r.time[1]))
	if r.steps > 0 && (side == 1 || gain > trialHopeless) {
		return
	}
	r.steps, t.settled = 0, 0
	if gain > 1+trialMargin {
		t.now, t.gap = r.count[1], trialGap
		t.lower = r.count[1] < r.count[0] // on in the same direction
	} else {
		t.now, t.gap = r.count[0], min(2*t.gap, trialGapMost)
		t.lower = r.count[1] > r.count[0]
	}
	t.wait = t.gap
}
