package remote

// state is what an engine is to requests. The package's documentation draws the states.
type state int

const (
	unasked  state = iota // no work: it has not joined yet
	serving               // gets work
	replaced              // gets work; another process may answer than the one that was compared
	doubtful              // gets work; the next missed answer takes it out
	out                   // no work until it answers and fits
	frozen                // no work until it has generated a token, too
	states                // their number
)

// works reports whether an engine gets work.
func (s state) works() bool { return s == serving || s == replaced || s == doubtful }

// event changes the state of an engine.
type event int

const (
	fits        event = iota // it was compared, and has the model
	reconnected              // a probe has a new connection
	confirmed                // it describes itself as before
	active                   // a probe had no answer, but answers of requests went on
	missed                   // a probe had no answer, or a comparison no end
	silent                   // so had two in a row
	stalled                  // requests wait, and no byte of an answer comes
	moved                    // a part of an answer came
	gone                     // it refuses connections or work
	unfit                    // it serves something else, or will never work again
	events                   // their number
)

// endsCalls reports whether calls in flight end, and are asked elsewhere.
func (e event) endsCalls() bool { return e == silent || e == unfit }

// next has the state after each event.
var next = [events][states]state{
	//           unasked  serving   replaced  doubtful  out      frozen
	fits:        {serving, serving, serving, serving, serving, serving},
	reconnected: {unasked, replaced, replaced, doubtful, out, frozen},
	confirmed:   {unasked, serving, serving, serving, out, frozen},
	active:      {unasked, serving, replaced, replaced, out, frozen},
	missed:      {unasked, doubtful, doubtful, doubtful, out, frozen},
	silent:      {frozen, frozen, frozen, frozen, frozen, frozen},
	stalled:     {frozen, frozen, frozen, frozen, frozen, frozen},
	moved:       {unasked, serving, replaced, doubtful, out, out},
	gone:        {out, out, out, out, out, frozen},
	unfit:       {out, out, out, out, out, frozen},
}

// on makes a transition. It is the only place that changes a state. why is the reason of states
// without work. It returns what both were. The caller holds r.mu.
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

// note makes a transition that needs no reason.
func (r *replica) note(ev event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.on(ev, nil)
}

// now is an engine's state.
func (r *replica) now() state {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}
