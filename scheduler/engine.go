package scheduler

import (
	"runtime"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"agentd/llama"
	"agentd/scheduler/core"
)

// Engine generates with one model on one context. Its methods may be called by
// any number of goroutines.
type Engine struct {
	model *llama.Model
	cfg   Config
	rules core.Config // of every core the loop makes
	back  backend
	log   zerolog.Logger
	now   func() time.Time
	// endings are the model's end-of-generation tokens.
	endings []llama.Token

	// mu guards what follows. No other lock is taken while it is held.
	mu       sync.Mutex
	inbox    []command
	closed   bool
	admitted int // candidates of tickets
	refused  uint64
	pace     pace
	stats    Stats // of the loop, as of its last step

	wake   chan struct{}  // the inbox has something, or the engine was closed
	done   chan struct{}  // the loop has ended
	calls  sync.WaitGroup // Generate calls, until their samplers are closed
	finish error          // of closing the context; set before done
}

// command is what callers tell the loop.
type command struct {
	job    *job
	cancel bool
}

// New makes a context with options, which must leave room for several
// sequences, and starts its engine. The model must stay open until Close.
func New(m *llama.Model, options []llama.ContextOption, cfg Config, log zerolog.Logger) (*Engine, error) {
	c, err := m.NewContext(options...)
	if err != nil {
		return nil, err
	}
	if err := cfg.complete(c.BatchSize(), c.MaxSequences(), c.MaxOutputs(), runtime.GOMAXPROCS(0)); err != nil {
		return nil, closeAfter(c, err)
	}
	e := newEngine(m, c, newContextBackend(c), cfg, log)
	if err := e.start(); err != nil {
		return nil, closeAfter(e.back, err)
	}
	return e, nil
}

func closeAfter(c interface{ Close() error }, err error) error {
	_ = c.Close() // err is what matters, and a fresh context closes
	return err
}

func newEngine(m *llama.Model, c *llama.Context, back backend, cfg Config, log zerolog.Logger) *Engine {
	e := &Engine{
		model: m, cfg: cfg, back: back, log: log, now: time.Now,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	for t := range llama.Token(m.Vocab().Size()) {
		if m.Vocab().IsEOG(t) {
			e.endings = append(e.endings, t)
		}
	}
	e.rules = core.Config{
		Cells:        c.Size(),
		MaxSequences: cfg.MaxSequences,
		MaxOutputs:   cfg.MaxRunning,
		BatchTokens:  cfg.BatchTokens,
		PrefillChunk: cfg.PrefillChunk,
		RowCells:     rowCells(m.Info()),
		Overcommit:   true,
		PartialCopy:  c.Memory().CanRemovePartial(),
		Check:        checkInvariants,
	}
	if window := m.Info().SlidingWindow; window > 0 {
		e.rules.Usable = func(s core.SeqID, n int) bool {
			// Cells that left the window of their only sequence may have been given
			// away, oldest first; those from n-window on must be there.
			first, _ := e.back.Range(s)
			return first <= max(0, n-window)
		}
	}
	return e
}

// rowCells estimates core.Config's RowCells. A row takes 2 operations for each
// parameter, and 4 for each cell, layer and value of its width. BenchmarkLongPrompt shows
// what comes of it: cells that the rows of a prompt share cost them half.
func rowCells(info llama.ModelInfo) int {
	return max(1, int(info.Params)/max(1, info.Layers*info.Embedding))
}

// start runs the loop.
func (e *Engine) start() error {
	c, err := core.New(e.rules)
	if err != nil {
		return err
	}
	e.stats.Cells = e.rules.Cells
	l := &loop{Engine: e, core: c, jobs: map[core.JobID]*job{}}
	go l.run()
	return nil
}

// Admit counts candidates, the number of completions that a whole request will
// generate, against the queue: all or, with *QueueFullError, none of them.
func (e *Engine) Admit(candidates int) (*Ticket, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	if over := e.admitted + candidates - e.cfg.QueueLimit; over > 0 {
		e.refused++
		return nil, &QueueFullError{
			Asked: candidates, Admitted: e.admitted, Limit: e.cfg.QueueLimit, RetryAfter: e.pace.estimate(over),
		}
	}
	e.admitted += candidates
	return &Ticket{engine: e, left: candidates}, nil
}

// Close refuses new work, ends every generation with ErrClosed and frees the
// context. When it returns, nothing of the engine is left; the model can be
// freed. Further calls wait for the same and return the same.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.back.Abort()
	e.poke()
	<-e.done
	e.calls.Wait()
	return e.finish
}

// send hands commands to the loop, all at once, unless the engine is closed.
func (e *Engine) send(c ...command) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	e.inbox = append(e.inbox, c...)
	e.poke()
	return nil
}

// poke wakes the loop if it sleeps.
func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
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

func (p *pace) estimate(candidates int) time.Duration {
	return min(max(time.Duration(candidates)*p.average, minRetry), maxRetry)
}
