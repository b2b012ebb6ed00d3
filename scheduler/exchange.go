package scheduler

import (
	"slices"

	"agentd/llama"
	"agentd/scheduler/core"
)

// prefixCopy is a prefix on its way from one context to another, which waits for it instead of
// computing it again.
type prefixCopy struct {
	to      *worker
	adapter core.AdapterID
	prefix  []llama.Token // of whole blocks; what was saved, once state is set
	// hash is that of the prefix: request.blocks[last] of the requests that begin with it.
	hash core.PrefixHash
	last int

	// The context that has the prefix uses these.
	block core.BlockID // that the next plan saves; 0: none yet
	asked bool         // the context had it in a step since

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
		if n := o.prefixes.match(r.blocks) * prefixBlock; n > tokens {
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
	c.to.send(command{arrived: c})
}

func (c *prefixCopy) free() {
	if c.state != nil {
		c.state.Free()
	}
}

// waitsForCopy reports whether a request waits for a copied prefix: its own, or that of an earlier
// request which begins with the same tokens.
func (w *worker) waitsForCopy(r *request) bool {
	if r.copy != nil {
		return true
	}
	for _, q := range w.queue {
		if c := q.copy; c != nil && c.last < len(r.blocks) && r.blocks[c.last] == c.hash {
			r.copy = c
			return true
		}
	}
	return false
}

// exportPrefixes plans to save the prefixes that other contexts wait for. A prefix in prefill is
// saved once it is computed. For one that is not there the answer is no: but not before the requests
// that came with it could start.
func (w *worker) exportPrefixes() {
	w.exports = slices.DeleteFunc(w.exports, func(c *prefixCopy) bool {
		if !w.nonFinite {
			id, length, waits := w.core.Export(c.adapter, c.prefix, w.cfg.minCopy)
			switch {
			case id != 0:
				c.block, c.prefix = id, c.prefix[:length]
				return false
			case waits, !c.asked && !w.core.Idle():
				c.asked = true
				return false
			}
		}
		w.engine.sendCopy(c)
		return true
	})
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
	var waiting []*request
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
	if c.state != nil && len(waiting) > 0 {
		w.back.Put(w.core.Import(c.adapter, c.prefix), c.state)
	} else {
		c.free()
	}
	for _, r := range waiting {
		w.submit(r)
	}
}
