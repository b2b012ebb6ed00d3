package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// Engine generates with one model on one or more contexts. Its methods are safe for
// concurrent use.
type Engine struct {
	model   *llama.Model // of the first worker
	vocab   *llama.Vocab // the same for all models
	cfg     Config
	cells   int // of the smallest context
	workers []*worker
	placed  []llama.Placement
	log     zerolog.Logger
	now     func() time.Time
	began   time.Time
	// endings are the model's end-of-generation tokens.
	endings []llama.Token

	// mu guards the fields below, and the shared fields of workers and admissions. No other lock is taken
	// while it is held.
	mu       sync.Mutex
	closed   bool
	admitted int // candidates of all admissions
	// admissions are those with candidates that have not ended, oldest first.
	admissions []*admission
	refused    uint64
	retried    uint64 // generations that continued on another context
	failed     uint64 // generations that ended with an error of the model
	rate       completionRate
	// stuckSteps counts the steps that the watchdog found stuck.
	stuckSteps uint64
	trying     bool // New is trying the weights, which do not serve yet
	pausing    pausing
	quiet      chan struct{} // closed when no worker has a request; nil without a pause

	adapters    map[core.AdapterID]adapter
	lastAdapter core.AdapterID

	calls sync.WaitGroup // requests whose samplers are open, and changes of adapters

	stopWatch context.CancelFunc
	watchdog  sync.WaitGroup
}

// Context describes one context that New creates.
type Context struct {
	// Model must stay open until the engine is closed. Contexts may share one. The models of
	// an engine are loaded from the same file.
	Model   *llama.Model
	Options []llama.ContextOption // they must allow several sequences
	Device  string                // the device that computes, for logs and metrics
}

// New creates the contexts, starts an engine over them and computes a short prompt in each. The
// configuration applies to each context, except QueueLimit, which applies to all together. The error wraps
// ErrContext if a context could not be created, and ErrNotFinite if the weights give NaN or Inf. ctx aborts
// the computation. New does not return while a step hangs, which Config.OnStuck reports.
func New(ctx context.Context, contexts []Context, cfg Config, log zerolog.Logger) (*Engine, error) {
	return open(ctx, contexts, nil, cfg, log)
}

// open is New with an adapter that all contexts apply, or nil.
func open(ctx context.Context, contexts []Context, adapter *llama.Adapter, cfg Config, log zerolog.Logger) (*Engine, error) {
	var parts []workerParts
	fail := func(err error) (*Engine, error) {
		for _, p := range parts {
			_ = p.back.Close() // closing a new context does not fail
		}
		return nil, err
	}
	if len(contexts) == 0 || len(contexts) > maxWorkers {
		return fail(fmt.Errorf("scheduler: %d contexts, must be 1 to %d", len(contexts), maxWorkers))
	}
	queue := cfg.QueueLimit
	for _, c := range contexts {
		made, err := c.Model.NewContext(c.Options...)
		if err != nil {
			return fail(fmt.Errorf("%w: %w", ErrContext, err))
		}
		parts = append(parts, workerParts{c, made, newContextBackend(made)})
		if adapter != nil {
			if err := made.SetAdapter(adapter); err != nil {
				return fail(err)
			}
		}
		if err := cfg.complete(made); err != nil {
			return fail(err)
		}
	}
	if queue == 0 {
		cfg.QueueLimit *= len(contexts)
	}
	e, err := newEngine(parts, cfg, log)
	if err != nil {
		return fail(err)
	}
	e.start()
	if err := e.try(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// workerParts are the parts of a worker that newEngine gets.
type workerParts struct {
	Context
	context *llama.Context
	back    backend
}

func newEngine(parts []workerParts, cfg Config, log zerolog.Logger) (*Engine, error) {
	e := &Engine{
		model: parts[0].Model, vocab: parts[0].Model.Vocab(), cfg: cfg, cells: parts[0].context.Size(),
		log: log, now: time.Now,
	}
	for t := range llama.Token(e.vocab.Size()) {
		if e.vocab.IsEOG(t) {
			e.endings = append(e.endings, t)
		}
	}
	for i, p := range parts {
		w, err := newWorker(e, i, p, len(parts) > 1)
		if err != nil {
			return nil, err
		}
		e.workers = append(e.workers, w)
		e.cells = min(e.cells, p.context.Size())
	}
	e.placed = placed(parts)
	return e, nil
}

// placed sums the memory of contexts and models on each device.
func placed(parts []workerParts) (all []llama.Placement) {
	seen := map[*llama.Model]bool{}
	for _, p := range parts {
		for _, use := range p.context.Placement() {
			i := slices.IndexFunc(all, func(a llama.Placement) bool { return a.Device == use.Device })
			if i < 0 {
				i, all = len(all), append(all, llama.Placement{Device: use.Device})
			}
			if !seen[p.Model] {
				all[i].Layers += use.Layers
				all[i].Weights += use.Weights
			}
			all[i].Memory += use.Memory
			all[i].Compute += use.Compute
		}
		seen[p.Model] = true
	}
	return all
}

// Placement returns the memory of all contexts and models on each device, as of the engine's start.
func (e *Engine) Placement() []llama.Placement { return e.placed }

// start runs the workers and their watchdog.
func (e *Engine) start() {
	ctx, stop := context.WithCancel(context.Background())
	e.stopWatch = stop
	e.began = e.now()
	e.watchdog.Go(func() { e.watch(ctx) })
	for _, w := range e.workers {
		go w.run()
	}
}

// Close refuses new work, ends every generation with ErrClosed and frees the contexts. When it
// returns, the models can be freed, unless the error is a *generation.StuckError: then a step does
// not end, and its context still uses the model. Further calls wait for the same result.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	for _, w := range e.workers {
		w.back.Abort()
		w.wakeUp()
	}
	defer func() {
		e.stopWatch()
		e.watchdog.Wait()
	}()
	var errs []error
	hang := &generation.StuckError{}
	for _, w := range e.workers {
		select {
		case <-w.done:
		case <-w.rounds.abandoned:
		}
		select {
		case <-w.done: // perhaps after all
			errs = append(errs, w.closeErr)
		default:
			hang.Contexts = append(hang.Contexts, w.index)
		}
	}
	if hang.Contexts != nil {
		return errors.Join(append(errs, hang)...)
	}
	e.calls.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.adapters {
		errs = append(errs, a.free())
	}
	e.adapters = nil
	return errors.Join(errs...)
}

// end sends the worker of a request the command to cancel or interrupt it.
func (e *Engine) end(r *request, how commandKind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed && r.worker != nil { // otherwise it is being answered
		r.worker.send(command{kind: how, request: r})
	}
}

func (e *Engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}
