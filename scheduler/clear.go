package scheduler

import "errors"

var errRuns = errors.New("requests run")

// ClearCache frees all cached prefixes. It waits for the contexts until done is closed. all is false if requests run,
// whose prefixes stay, or a context did not answer in time. The error is ErrClosed.
func (e *Engine) ClearCache(done <-chan struct{}) (all bool, err error) {
	if err := e.beginCall(); err != nil {
		return false, err
	}
	defer e.calls.Done()
	answers := make([]chan error, len(e.workers))
	e.mu.Lock()
	for i, w := range e.workers {
		answers[i] = make(chan error, 1)
		w.send(command{kind: clearPrefixes, answer: answers[i]})
	}
	e.mu.Unlock()
	all = true
	for i, w := range e.workers {
		select {
		case err := <-answers[i]:
			all = all && err == nil
		case <-w.done: // the context was closed
		case <-done:
			return false, nil
		}
	}
	return all, nil
}

// clearCache frees the cached prefixes of a worker. The error is errRuns if requests run, whose prefixes stay.
func (w *worker) clearCache() error {
	w.core.ClearCache()
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	if w.prefixes != nil {
		w.prefixes.clear()
	}
	if len(w.requests) > 0 {
		return errRuns
	}
	return nil
}
