package scheduler

import (
	"cmp"
	"math"
	"slices"
	"time"

	"agentd/scheduler/generation"
)

// place is the state of an admission in the queue. Engine.mu guards it.
type place struct {
	priority int
	held     int       // candidates that have not ended
	since    time.Time // when it was admitted
	started  time.Time // when its first candidate started; zero: all wait
	// refusal is the error with which it lost its places, after which gone is closed; nil: it has them.
	refusal error
	gone    chan struct{}
}

// before reports whether an admission precedes a new one of that priority. Each second of its wait adds 1 to its own
// priority.
func (p *place) before(priority int, now time.Time) bool {
	if !p.started.IsZero() {
		now = p.started
	}
	return p.priority+int(now.Sub(p.since)/time.Second) >= priority
}

// place adds an admission to the queue. Engine.mu is held.
func (e *Engine) place(candidates int, p place) *admission {
	p.held = candidates
	a := &admission{engine: e, place: p, unused: candidates}
	e.admitted += candidates
	e.admissions = append(e.admissions, a)
	return a
}

// giveBack gives n places back. Engine.mu is held.
func (a *admission) giveBack(n int) {
	e := a.engine
	n = min(n, a.held) // one that lost its places has none
	a.held -= n
	e.admitted -= n
	if i := slices.Index(e.admissions, a); a.held == 0 && i >= 0 {
		e.admissions = slices.Delete(e.admissions, i, i+1)
	}
}

// makeWay makes places free for new candidates of a priority, or refuses them. Only admissions that precede them (see
// before) count against Config.QueueLimit. If all together exceed it, other admissions that have not started lose their
// places: the lowest priority first, and of one priority the newest. Started ones keep theirs, so more candidates than
// the limit may be admitted, but at most twice as many. Engine.mu is held.
func (e *Engine) makeWay(candidates, priority int) error {
	limit, before, stay := e.cfg.QueueLimit, 0, 0
	var waiting []*admission
	for now, i := e.now(), len(e.admissions)-1; i >= 0; i-- { // newest first
		switch a := e.admissions[i]; {
		case a.before(priority, now):
			before += a.held
		case !a.started.IsZero():
			stay += a.held
		default:
			waiting = append(waiting, a)
		}
	}
	over := max(before+candidates-limit, before+stay+candidates-2*limit)
	late := e.rate.excess(before-e.together(), e.cfg.QueueTime)
	if over > 0 || late > 0 {
		return &generation.QueueFullError{
			Asked: candidates, Admitted: before + stay, Limit: limit, Late: over <= 0, RetryAfter: e.rate.estimate(max(over, late)),
		}
	}
	slices.SortStableFunc(waiting, func(a, b *admission) int { return cmp.Compare(a.priority, b.priority) })
	for _, a := range waiting {
		if e.admitted+candidates <= limit {
			break
		}
		asked := a.held
		a.giveBack(asked)
		a.refusal = &generation.QueueFullError{
			Asked: asked, Admitted: e.admitted + candidates, Limit: limit, MadeWay: true, RetryAfter: e.rate.estimate(asked),
		}
		a.unused = 0
		e.refused++
		close(a.gone)
	}
	return nil
}

// live returns the number of candidates that have to be computed for a request.
func live(r *generation.Request) int {
	if r.Resume == nil {
		return r.N
	}
	n := 0
	for i := range r.Resume.Completions {
		if r.Resume.Completions[i].Finish == generation.FinishPaused {
			n++
		}
	}
	return n
}

// Refusal returns the error of an admission that has lost its places to a higher priority, else nil.
func (a *admission) Refusal() error {
	a.engine.mu.Lock()
	defer a.engine.mu.Unlock()
	return a.refusal
}

// second converts a time to seconds since the engine's start, for core.Core.Tick.
func (e *Engine) second(t time.Time) int { return int(math.Floor(t.Sub(e.began).Seconds())) }

// rank orders requests of all priorities: each second of waiting adds 1 to the priority.
func (e *Engine) rank(r *request) int { return r.gen.Priority - e.second(r.times.Submitted) }
