package scheduler

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"agentd/scheduler/core"
)

// resync compares the context with the core after a failed step. The core has dropped the
// sequences of that step. Others whose positions differ are computed again. With recurrent
// state all are, because llama.cpp may have moved their cells without their contents.
func (w *worker) resync() {
	inStep := map[core.SeqID]bool{}
	for _, r := range w.plan.Rows {
		inStep[r.Seq] = true
	}
	for s := range core.SeqID(w.cfg.MaxSequences) {
		_, last := w.back.Range(s)
		if !inStep[s] && (last != w.core.Length(s)-1 || last >= 0 && !w.coreConfig.PartialCopy) {
			w.log.Warn().Int32("sequence", int32(s)).Int("last", last).Int("expected", w.core.Length(s)-1).Msg("sequence lost; computing it again")
			w.core.Invalidate(s)
		}
	}
}

// reset clears the context, whose contents are unknown. Requests move to other contexts; the rest fails with ErrModel.
func (w *worker) reset(cause error) {
	w.log.Error().Err(cause).Msg("clearing context")
	all := w.list()
	w.queue = nil
	for _, r := range all {
		w.failRequest(r, cause, true)
	}
	if len(w.engine.workers) > 1 {
		w.deliver() // so that other contexts can take the requests also if clearing hangs
	}
	if err := w.back.Clear(true); err != nil {
		w.log.Error().Err(err).Msg("context not cleared")
		w.recordFailure(err)
	}
	w.nonFinite = false
	w.engine.mu.Lock()
	if w.prefixes != nil {
		w.prefixes.clear()
	}
	w.engine.mu.Unlock()
	w.resetCore()
}

// resetCore replaces the core by one with an empty cache.
func (w *worker) resetCore() {
	old := w.core
	w.core = core.New(w.coreConfig)
	w.core.InheritCounters(old)
}

// errNonFinite is the reason to clear an idle context.
var errNonFinite = errors.New("a computation failed, and cells may hold NaN or Inf")

// startQueued empties an idle context and starts the requests that waited for that: with
// Config.Isolate the next one.
func (w *worker) startQueued() {
	switch waiting := w.queue; {
	case w.nonFinite:
		w.queue = nil
		w.reset(errNonFinite)
		w.queue = waiting
	case len(waiting) == 0:
		return
	default:
		if err := w.back.Clear(false); err != nil {
			w.recordFailure(err)
			w.reset(err)
			return
		}
		w.resetCore()
	}
	for len(w.queue) > 0 && (!w.cfg.Isolate || w.core.Idle()) {
		r := slices.MaxFunc(w.queue, func(a, b *request) int { return cmp.Compare(w.engine.rank(a), w.engine.rank(b)) })
		w.queue = slices.DeleteFunc(w.queue, func(o *request) bool { return o == r })
		w.submit(r)
	}
}

// list returns all requests in order of arrival.
func (w *worker) list() []*request {
	list := slices.SortedFunc(maps.Values(w.requests), func(a, b *request) int { return cmp.Compare(a.id, b.id) })
	return append(list, w.queue...)
}
