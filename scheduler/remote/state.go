package remote

// state is the state of an engine. The package's documentation draws the transitions.
type state int

const (
	unasked  state = iota // gets no work: it has not joined yet
	serving               // gets work
	replaced              // gets work; another process than the compared one may answer
	doubtful              // gets work until the next probe without an answer
	out                   // gets no work until it answers and fits
	frozen                // gets no work until it fits and has generated a token
	states                // number of states
)

// works reports whether an engine gets work.
func (s state) works() bool { return s == serving || s == replaced || s == doubtful }

// event changes the state of an engine.
type event int

const (
	fits        event = iota // the comparison found the same model
	reconnected              // a probe has a new connection
	confirmed                // it describes itself as before
	active                   // a probe had no answer, but parts of other answers came meanwhile
	missed                   // a probe had no answer, or a comparison did not end
	silent                   // two probes in a row had no answer
	stalled                  // lateRequests requests timed out without a byte
	progressed               // a part of an answer came
	gone                     // it refuses connections or work
	unfit                    // it serves another model, or reports that it will never work again
	events                   // number of events
)

// endsCalls reports whether the calls in flight end, to be sent to other engines.
func (e event) endsCalls() bool { return e == silent || e == unfit }

// next[event][state] is the state after an event.
var next = [events][states]state{
	//           unasked  serving   replaced  doubtful  out      frozen
	fits:        {serving, serving, serving, serving, serving, serving},
	reconnected: {unasked, replaced, replaced, doubtful, out, frozen},
	confirmed:   {unasked, serving, serving, serving, out, frozen},
	active:      {unasked, serving, replaced, replaced, out, frozen},
	missed:      {unasked, doubtful, doubtful, doubtful, out, frozen},
	silent:      {frozen, frozen, frozen, frozen, frozen, frozen},
	stalled:     {frozen, frozen, frozen, frozen, frozen, frozen},
	progressed:  {unasked, serving, replaced, doubtful, out, out},
	gone:        {out, out, out, out, out, frozen},
	unfit:       {out, out, out, out, out, frozen},
}

// on makes the transition of an event, and is the only place that changes a state. why is the reason of a state
// without work. It returns the former state and reason. The caller holds r.mu.
func (r *replica) on(ev event, why error) (was state, before error) {
	was, before = r.state, r.why
	r.state = next[ev][was]
	if why != nil || r.state.works() {
		r.why = why
	}
	if ev.endsCalls() {
		r.end(why)
	}
	return was, before
}

// note makes the transition of an event that needs no reason.
func (r *replica) note(ev event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.on(ev, nil)
}

// now returns the engine's state.
func (r *replica) now() state {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}
