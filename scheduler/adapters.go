package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"agentd/llama"
	"agentd/scheduler/core"
)

// adapter is a LoRA adapter, loaded once for each model.
type adapter map[*llama.Model]*llama.Adapter

func (a adapter) free() error {
	var errs []error
	for _, of := range a {
		errs = append(errs, of.Free())
	}
	return errors.Join(errs...)
}

// errNoAdapter is the error of a request with an adapter that was removed, or never added.
var errNoAdapter = errors.New("scheduler: there is no such adapter")

// AddAdapter loads the LoRA adapter at path for all models while the engine runs, and returns the id for requests. The
// error is one of llama.Model.NewAdapter, ErrClosed, ErrNotFinite, or ErrContext if there is no memory to try it.
func (e *Engine) AddAdapter(path string) (core.AdapterID, error) {
	if err := e.beginCall(); err != nil { // Close waits for it
		return 0, err
	}
	defer e.calls.Done()
	loaded := adapter{}
	for _, w := range e.workers {
		if loaded[w.Model] != nil {
			continue
		}
		a, err := w.Model.NewAdapter(path)
		if err == nil {
			loaded[w.Model] = a
			err = w.tryAdapter(a)
		}
		if err != nil {
			return 0, errors.Join(err, loaded.free())
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastAdapter++
	if e.adapters == nil {
		e.adapters = map[core.AdapterID]adapter{}
	}
	e.adapters[e.lastAdapter] = loaded
	return e.lastAdapter, nil
}

// tryAdapter computes a short prompt with an adapter in its own small engine, while the worker runs.
func (w *worker) tryAdapter(a *llama.Adapter) error {
	options := append(slices.Clone(w.Options), llama.SetContext(tryCells), llama.SetBatch(tryCells),
		llama.SetMicroBatch(tryCells), llama.SetMaxSequences(1), llama.SetMaxOutputs(1))
	e, err := open(context.Background(), []Context{{Model: w.Model, Options: options, Device: w.Device}}, a, Config{OnStuck: w.cfg.OnStuck}, w.log)
	if err != nil {
		return err
	}
	return e.Close()
}

// AdapterBytes returns the bytes of an adapter in memory, for all models together.
func (e *Engine) AdapterBytes(id core.AdapterID) (bytes uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, of := range e.adapters[id] {
		bytes += of.Bytes()
	}
	return bytes
}

// RemoveAdapter frees an adapter and its cached prefixes. It waits until no context applies it. No
// request of the adapter may be running.
func (e *Engine) RemoveAdapter(id core.AdapterID) error {
	if err := e.beginCall(); err != nil {
		return nil // Close frees all of them
	}
	defer e.calls.Done()
	e.mu.Lock()
	removed, ok := e.adapters[id]
	delete(e.adapters, id)
	e.mu.Unlock()
	if !ok {
		return fmt.Errorf("%w: %d", errNoAdapter, id)
	}
	return errors.Join(e.ask(command{kind: dropAdapter, adapter: id}, nil), removed.free())
}

// adapterOf returns an adapter of a worker's model.
func (e *Engine) adapterOf(id core.AdapterID, w *worker) (*llama.Adapter, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a := e.adapters[id][w.Model]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("%w: %d", errNoAdapter, id)
}

// useAdapter makes the context apply an adapter; 0 removes it.
func (w *worker) useAdapter(id core.AdapterID) (err error) {
	var a *llama.Adapter
	if id != 0 {
		a, err = w.engine.adapterOf(id, w)
	}
	if err == nil {
		err = w.back.SetAdapter(a)
	}
	if err == nil {
		w.adapter = id
	}
	return err
}
