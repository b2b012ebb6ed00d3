package core

import "time"

// Threads decides how many threads compute the next step, and how they wait for each other. While the processors are
// free, all threads compute and wait actively (they spin). While other programs use the processors, waits are brief (a
// thread sleeps). Then fewer threads can be faster, since each operation of the model waits for the slowest one. A
// trial compares two counts, with alternating blocks of steps, and keeps the faster one.
//
// It has no clock: Observe gets the time of a step. The zero value is not usable; see [NewThreads].
type Threads struct {
	most  int  // threads on free processors
	fixed bool // the number of threads is always most
	waits waits
	// The following are for steps with brief waits.
	now   int  // the present number of threads
	wait  int  // steps until the next trial may start
	gap   int  // steps between two trials
	lower bool // the next trial tries fewer threads if both fewer and more are possible
	trial trial
}

// StepCost is the time of a step.
type StepCost struct {
	Rows int           // computed tokens
	Time time.Duration // to compute and sample them
	// Waited is the longest time that a thread waited for a processor.
	Waited time.Duration
}

// waits is how the threads of a step wait for each other. Active waits are faster on free processors.
// Beside other programs they are far slower, since a spinning thread occupies a processor that the
// thread for which it waits could use.
//
// Only steps with active waits show which kind is better: with brief waits, the kernel may leave two threads on one
// processor although another one is free.
type waits struct {
	brief  bool
	score  float64 // sum of the waited shares of steps with active waits, each minus busyShare; at least 0
	active int     // steps since waits became active
	left   int     // steps until brief waits end
	gap    int     // steps that the next brief waits will last
}

// trial compares two counts of threads.
type trial struct {
	steps int    // steps left; 0: there is no trial
	count [2]int // numbers of threads: the present one, the other one
	rows  [2]int
	time  [2]time.Duration
}

// NewThreads starts with active waits and most threads, at least 1. If fixed, the number of threads never changes.
func NewThreads(most int, fixed bool) *Threads {
	t := &Threads{most: max(1, most), fixed: fixed, waits: waits{gap: briefFirst}}
	t.restart()
	return t
}

func (t *Threads) restart() {
	t.now, t.gap, t.wait, t.lower, t.trial = t.most, trialGap, trialFirst, false, trial{}
}

// Next returns the number of threads for the next step.
func (t *Threads) Next() int {
	if t.Brief() {
		return t.now
	}
	return t.most
}

// Brief reports whether waits are brief in the next step.
func (t *Threads) Brief() bool { return t.waits.brief }

// Observe takes the cost of a step that was computed with Next threads and Brief waits.
func (t *Threads) Observe(s StepCost) {
	w := &t.waits
	switch {
	case t.most == 1 || s.Rows == 0:
		return
	case t.trial.steps > 0: // trials end before waits change
		t.try(s)
		return
	case !w.brief:
		w.active++
		if w.active == activeLasts {
			w.gap = briefFirst
		}
		w.score = max(0, w.score+min(1, float64(s.Waited)/float64(max(1, s.Time)))-busyShare)
		if w.score < busyScore {
			return
		}
		w.brief, w.left = true, w.gap
		w.gap = min(2*w.gap, briefMost)
		if w.active >= activeLasts { // other programs have come
			t.restart()
		}
		return
	}
	if w.left--; w.left <= 0 {
		w.brief, w.score, w.active = false, 0, 0
	}
	switch {
	case t.fixed:
	case t.wait > 1 || !w.brief:
		t.wait--
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

// try adds a step to the trial. The trial ends with its last step, or after two blocks if the
// other count is far slower.
func (t *Threads) try(s StepCost) {
	r := &t.trial
	side := 0
	if t.now == r.count[1] {
		side = 1
	}
	if r.steps%trialBlock != 0 { // the first step of a block pays for the change
		r.rows[side] += s.Rows + stepRows
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
	r.steps = 0
	if gain > 1+trialMargin {
		t.now, t.gap, t.wait = r.count[1], trialGap, trialFirst
		t.lower = r.count[1] < r.count[0]  // on in the same direction
		if t.now == 1 || t.now == t.most { // there is none
			t.wait = t.gap
		}
		return
	}
	t.now, t.gap = r.count[0], min(2*t.gap, trialGapMost)
	t.lower = r.count[1] > r.count[0]
	t.wait = t.gap
}
