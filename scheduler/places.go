package scheduler

import (
	"cmp"
	"math"
	"slices"
	"time"

	"agentd/scheduler/generation"
)

// place is what the queue knows of an admission. Engine.mu guards it.
type place struct {
	priority int
	held     int       // candidates that have not ended
	since    time.Time // when it was admitted
	started  time.Time // when its first candidate was; zero: all wait
	// refusal is why it lost its places, which gone announces; nil: it has them.
	refusal error
	gone    chan struct{}
}

// before reports whether an admission goes before a new one of a priority. Each second of its wait counts as one step.
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

// give gives places back. Engine.mu is held.
func (a *admission) give(n int) {
	e := a.engine
	n = min(n, a.held) // one that lost its places has none
	a.held -= n
	e.admitted -= n
	if i := slices.Index(e.admissions, a); a.held == 0 && i >= 0 {
		e.admissions = slices.Delete(e.admissions, i, i+1)
	}
}

// giveOne gives back the place of a candidate that has ended. Engine.mu is held.
func (r *request) giveOne() {
	if r.places > 0 { // one that was computed again has given it before
		r.places--
		r.admission.give(1)
	}
}

// makeWay finds places for new candidates of a priority, or refuses them. Only those that go before count against
// Config.QueueLimit. Where all together exceed it, admissions of lower priority of which nothing has started lose
// theirs: the lowest priority first, and of one priority the newest. Those that have started stay. So more than the
// limit may be admitted, but not twice as many. Engine.mu is held.
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
		return &generation.QueueFullError{Asked: candidates, Admitted: before + stay, Limit: limit, RetryAfter: e.rate.estimate(max(over, late))}
	}
	slices.SortStableFunc(waiting, func(a, b *admission) int { return cmp.Compare(a.priority, b.priority) })
	for _, a := range waiting {
		if e.admitted+candidates <= limit {
			break
		}
		asked := a.held
		a.give(asked)
		a.refusal = &generation.QueueFullError{
			Asked: asked, Admitted: e.admitted + candidates, Limit: limit, MadeWay: true, RetryAfter: e.rate.estimate(asked),
		}
		a.unused = 0
		e.refused++
		close(a.gone)
	}
	return nil
}

// live is the number of candidates that a request has to compute.
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

// Refusal is the error of an admission that has lost its places to a higher priority.
func (a *admission) Refusal() error {
	a.engine.mu.Lock()
	defer a.engine.mu.Unlock()
	return a.refusal
}

// second is a time in seconds since the engine's start, for core.Core.Tick.
func (e *Engine) second(t time.Time) int { return int(math.Floor(t.Sub(e.began).Seconds())) }

// rank orders requests of any priority: each second of waiting counts as one step.
func (e *Engine) rank(r *request) int { return r.gen.Priority - e.second(r.times.Submitted) }
