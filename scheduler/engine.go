package scheduler

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"agentd/llama"
)

// Engine generates with one model on one or more contexts. Its methods may be
// called by any number of goroutines.
type Engine struct {
	model   *llama.Model // of the first worker; what it says of the vocabulary holds for all
	cfg     Config
	cells   int // of the smallest context
	workers []*worker
	log     zerolog.Logger
	now     func() time.Time
	// endings are the model's end-of-generation tokens.
	endings []llama.Token

	// mu guards what follows, and what workers say that it guards. No other lock is
	// taken while it is held.
	mu       sync.Mutex
	closed   bool
	admitted int // candidates of tickets
	refused  uint64
	moved    uint64 // generations that went on elsewhere
	pace     pace

	calls sync.WaitGroup // Generate calls, until their samplers are closed
}

// Context is one context to generate with, for New.
type Context struct {
	// Model must stay open until the engine is closed. Contexts may share one; the
	// models of an engine are the same file.
	Model   *llama.Model
	Options []llama.ContextOption // they must leave room for several sequences
	Device  string                // what computes it, for logs and metrics
}

// command is what callers tell a worker.
type command struct {
	job    *job
	cancel bool
}

// New makes the contexts and starts an engine over them. Its configuration holds
// for each of them, but QueueLimit for all together.
func New(contexts []Context, cfg Config, log zerolog.Logger) (*Engine, error) {
	var parts []part
	fail := func(err error) (*Engine, error) {
		for _, p := range parts {
			_ = p.back.Close() // err is what matters, and a fresh context closes
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
			return fail(err)
		}
		parts = append(parts, part{c.Model, made, newContextBackend(made), c.Device})
		if err := cfg.complete(made.BatchSize(), made.MaxSequences(), made.MaxOutputs(), runtime.GOMAXPROCS(0)); err != nil {
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
	return e, nil
}

// part is what a worker is made of.
type part struct {
	model   *llama.Model
	context *llama.Context
	back    backend
	device  string
}

func newEngine(parts []part, cfg Config, log zerolog.Logger) (*Engine, error) {
	e := &Engine{model: parts[0].model, cfg: cfg, cells: parts[0].context.Size(), log: log, now: time.Now}
	vocab := e.model.Vocab()
	for t := range llama.Token(vocab.Size()) {
		if vocab.IsEOG(t) {
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
	return e, nil
}

// start runs the workers.
func (e *Engine) start() {
	for _, w := range e.workers {
		go w.run()
	}
}

// Admit counts candidates, the number of completions that a whole request will
// generate, against the queue: all or, with *QueueFullError, none of them. So it also
// answers when those that wait before it will probably take longer than
// Config.QueueTime.
func (e *Engine) Admit(candidates int) (*Ticket, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	over := e.admitted + candidates - e.cfg.QueueLimit
	late := e.pace.late(e.admitted-e.slots(), e.cfg.QueueTime)
	if over > 0 || late > 0 {
		e.refused++
		return nil, &QueueFullError{
			Asked: candidates, Admitted: e.admitted, Limit: e.cfg.QueueLimit, RetryAfter: e.pace.estimate(max(over, late)),
		}
	}
	e.admitted += candidates
	return &Ticket{engine: e, left: candidates}, nil
}

// Close refuses new work, ends every generation with ErrClosed and frees the
// contexts. When it returns, nothing of the engine is left; the models can be
// freed. Further calls wait for the same and return the same.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	for _, w := range e.workers {
		w.back.Abort()
		w.poke()
	}
	var errs []error
	for _, w := range e.workers {
		<-w.done
		errs = append(errs, w.finish)
	}
	e.calls.Wait()
	return errors.Join(errs...)
}

// submit gives jobs to workers, all at once and in order, unless the engine is
// closed or no context is left.
func (e *Engine) submit(jobs []*job) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	for _, j := range jobs {
		w := e.place(j)
		if w == nil { // the same for all of them
			return fmt.Errorf("%w: %w", ErrModel, errNoContext)
		}
		w.take(j)
	}
	return nil
}

// cancel tells who has the job that its caller has gone.
func (e *Engine) cancel(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j.cancelled = true
	if !e.closed { // else every job is being answered
		j.worker.inbox = append(j.worker.inbox, command{job: j, cancel: true})
		j.worker.poke()
	}
}

// slots is how many candidates are in work at once rather than waiting. e.mu is held.
func (e *Engine) slots() int {
	n := 0
	for _, w := range e.workers {
		switch {
		case w.health.lost:
		case e.cfg.Alone:
			n++ // at least: the candidates of one generation
		default:
			n += e.cfg.MaxRunning
		}
	}
	return n
}

// pace estimates how long it takes until candidates have ended.
type pace struct {
	last    time.Time
	average time.Duration // between two that end
}

// ended notes that n candidates ended now, after the engine was busy since.
func (p *pace) ended(n int, now, since time.Time) {
	if p.last.Before(since) {
		p.last = since
	}
	each := now.Sub(p.last) / time.Duration(n)
	p.last = now
	if p.average == 0 {
		p.average = each
		return
	}
	for range n {
		p.average += time.Duration(rateSmoothing * float64(each-p.average))
	}
}

// late is how many of the waiting candidates must end until the others will have ended
// within limit. 0: none, or there is no limit.
func (p *pace) late(waiting int, limit time.Duration) int {
	if limit <= 0 || p.average <= 0 {
		return 0
	}
	return max(0, waiting-int(limit/p.average))
}

func (p *pace) estimate(candidates int) time.Duration {
	return min(max(time.Duration(candidates)*p.average, minRetry), maxRetry)
}
