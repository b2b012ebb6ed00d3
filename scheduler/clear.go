package scheduler

import "errors"

// errLeft: prefixes are left, of requests that run or in a context that has not answered.
var errLeft = errors.New("prefixes are left")

// ClearCache frees all cached prefixes. It waits for the contexts until done is closed. all is false if requests run,
// whose prefixes stay, or a context did not answer in time. The error is ErrClosed.
func (e *Engine) ClearCache(done <-chan struct{}) (all bool, err error) {
	if err := e.beginCall(); err != nil {
		return false, err
	}
	defer e.calls.Done()
	return e.ask(command{kind: clearPrefixes}, done) == nil, nil
}

// ask sends a command to all workers, and joins their answers. When done is closed, it returns errLeft at once.
func (e *Engine) ask(c command, done <-chan struct{}) error {
	answers, errs := make([]chan error, len(e.workers)), make([]error, len(e.workers))
	e.mu.Lock()
	for i, w := range e.workers {
		answers[i] = make(chan error, 1)
		c.answer = answers[i]
		w.send(c)
	}
	e.mu.Unlock()
	for i, w := range e.workers {
		select {
		case errs[i] = <-answers[i]:
		case <-w.done: // the context was closed
		case <-done:
			return errLeft
		}
	}
	return errors.Join(errs...)
}

// clearCache frees the cached prefixes of a worker. The error is errLeft if requests run, whose prefixes stay.
func (w *worker) clearCache() error {
	w.core.ClearCache()
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	if w.prefixes != nil {
		w.prefixes.clear()
	}
	if len(w.requests) > 0 {
		return errLeft
	}
	return nil
}
