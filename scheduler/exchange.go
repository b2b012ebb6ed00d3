package scheduler

import (
	"slices"

	"agentd/llama"
	"agentd/scheduler/core"
)

// prefixCopy is a prefix on its way from one context to another, which waits for it instead of
// computing it again.
type prefixCopy struct {
	from    *worker
	to      *worker
	adapter core.AdapterID
	prefix  []llama.Token     // a prompt without its last token; what was saved, once state is set
	here    int               // tokens of it that the waiting context has, in whole blocks
	least   int               // tokens behind them that are worth a copy, in whole blocks
	blocks  []core.PrefixHash // of the part that is expected

	// The context that has the prefix uses these.
	newest core.RequestID // the request before it
	asked  bool           // a step was planned since the requests before it could start
	block  core.BlockID   // that the next plan saves; 0: none yet

	state *llama.State // nil: the context does not have the prefix
}

// longest returns the context other than w that probably has most of the prompt's beginning, and how
// many tokens. Without exchange it returns nil and 0. Engine.mu is held.
func (e *Engine) longest(r *request, w *worker) (from *worker, tokens int) {
	if !e.exchange {
		return nil, 0
	}
	now := e.now()
	for _, o := range e.workers {
		if o == w || !o.health.up(now) {
			continue
		}
		if n := o.cached(r); n > tokens {
			from, tokens = o, n
		}
	}
	return from, tokens
}

// sendCopy implements dispatcher.
func (e *Engine) sendCopy(c *prefixCopy) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		c.free()
		return
	}
	delete(c.from.owed, c)
	c.to.send(command{arrived: c})
}

func (c *prefixCopy) free() {
	if c.state != nil {
		c.state.Free()
	}
}

// waitsForCopy reports whether a request waits for a copied prefix: its own, or that of an earlier
// request which begins alike. So no circle of requests wait for each other.
func (w *worker) waitsForCopy(r *request) bool {
	if r.copy != nil {
		return true
	}
	for _, q := range w.queue {
		if q.id < r.id && q.copy != nil && q.copy.brings(r.blocks) {
			r.copy = q.copy
			return true
		}
	}
	return false
}

// brings reports whether enough of the blocks are expected.
func (c *prefixCopy) brings(blocks []core.PrefixHash) bool {
	i := (c.here+c.least)/prefixBlock - 1
	return i < min(len(blocks), len(c.blocks)) && blocks[i] == c.blocks[i]
}

// exportPrefixes plans to save the prefixes that other contexts wait for. A prefix in prefill is
// saved once it is computed. For one that is not there the answer is no, but not before the requests
// that came earlier could start. So contexts that wait for each other wait for earlier requests.
func (w *worker) exportPrefixes() {
	w.exports = slices.DeleteFunc(w.exports, func(c *prefixCopy) bool {
		if !w.nonFinite {
			id, length, waits := w.core.Export(c.adapter, c.prefix, c.here, c.least)
			switch {
			case id != 0:
				c.block, c.prefix = id, c.prefix[:length]
				return false
			case waits, w.isQueued(c):
				return false
			case !c.asked && !w.core.Idle():
				c.asked = true
				return false
			}
		}
		w.engine.sendCopy(c)
		return true
	})
}

// isQueued reports whether a request that came before the copy was asked for will have the prefix, but
// waits for a copy itself.
func (w *worker) isQueued(c *prefixCopy) bool {
	return slices.ContainsFunc(w.queue, func(q *request) bool { return q.id <= c.newest && c.brings(q.blocks) })
}

// sendExports sends the prefixes that the plan's operations have saved.
func (w *worker) sendExports() {
	w.exports = slices.DeleteFunc(w.exports, func(c *prefixCopy) bool {
		if c.block == 0 {
			return false
		}
		c.state = w.back.Take(c.block)
		w.engine.sendCopy(c)
		return true
	})
}

// refuseExports answers that this context has no prefix to give.
func (w *worker) refuseExports() {
	for _, c := range w.exports {
		w.engine.sendCopy(c)
	}
	w.exports = nil
}

// importPrefix starts the requests that wait for a prefix. They compute it if it did not come.
func (w *worker) importPrefix(c *prefixCopy) {
	waiting := w.stopWaiting(c)
	if c.state != nil && len(waiting) > 0 {
		w.back.Put(w.core.Import(c.adapter, c.prefix, c.here), c.state)
	} else {
		c.free()
	}
	w.startWaiting(waiting)
}

// stopWaiting takes the requests that wait for a prefix out of the queue.
func (w *worker) stopWaiting(c *prefixCopy) (waiting []*request) {
	w.queue = slices.DeleteFunc(w.queue, func(r *request) bool {
		if r.copy != c {
			return false
		}
		r.copy = nil
		if w.nonFinite {
			return false // it goes on waiting for the context to be cleared
		}
		waiting = append(waiting, r)
		return true
	})
	return waiting
}

// startWaiting starts requests, or lets them wait for another prefix.
func (w *worker) startWaiting(waiting []*request) {
	for _, r := range waiting {
		if w.waitsForCopy(r) { // what comes before this prefix is not there yet
			w.queue = append(w.queue, r)
		} else {
			w.submit(r)
		}
	}
}
