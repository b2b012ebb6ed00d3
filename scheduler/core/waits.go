package core

// waits decides how the threads of a step wait for each other. Active waits are faster
// on free processors. Beside other programs they are far slower, since a thread that
// spins keeps its processor from the one that it waits for.
//
// Only steps with active waits show which of the two is better. Threads with brief waits may share a
// processor although another one is free, when the kernel does not move them.
type waits struct {
	brief  bool
	score  float64 // how far the latest steps with active waits were beyond busyShare
	active int     // steps since waits are active
	left   int     // steps until brief waits end
	gap    int     // steps that the next brief waits last
}

// observe takes the share of the last step that one of its threads waited for a
// processor, from 0 to 1. It returns true when other programs have come.
func (w *waits) observe(waited float64) bool {
	if w.brief {
		if w.left--; w.left <= 0 {
			w.brief, w.score, w.active = false, 0, 0
		}
		return false
	}
	w.active++
	if w.active == activeLasts {
		w.gap = briefFirst
	}
	w.score = max(0, w.score+min(1, waited)-busyShare)
	if w.score < busyScore {
		return false
	}
	w.brief, w.left = true, w.gap
	w.gap = min(2*w.gap, briefMost)
	return w.active >= activeLasts
}
