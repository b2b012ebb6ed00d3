package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// Ticket is the admission of one request. Its methods may be called by several
// goroutines.
type Ticket struct {
	engine *Engine

	mu   sync.Mutex
	left int // candidates not yet generated
}

// Generate completes g.Prompt g.N times: Submit of one generation and its Wait.
func (t *Ticket) Generate(ctx context.Context, g generation.Request) (*generation.Result, error) {
	return t.Submit(ctx, []generation.Request{g})[0].Wait(ctx)
}

// Submit hands generations to the engine all at once and in their order, so that
// on an idle engine the same generations are always computed in the same steps.
// Their candidates must be admitted and not yet used. Wait must be called for each.
func (t *Ticket) Submit(ctx context.Context, gs []generation.Request) []*Pending {
	list := make([]*Pending, len(gs))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0)) // a grammar takes long to parse
	for i := range gs {
		p := &Pending{engine: t.engine, n: gs[i].N}
		list[i] = p
		group.Go(func() error {
			p.prepare(ctx, t, gs[i])
			return nil
		})
	}
	_ = group.Wait() // no function of it fails
	jobs := make([]*job, 0, len(list))
	for _, p := range list {
		if p.job != nil {
			jobs = append(jobs, p.job)
		}
	}
	if err := t.engine.submit(jobs); err != nil {
		for _, p := range list {
			if p.job != nil {
				p.refuse(err)
			}
		}
	}
	return list
}

// Pending is a generation that was submitted.
type Pending struct {
	engine *Engine
	n      int
	job    *job  // nil when it was refused
	err    error // why
}

// prepare makes the job of a generation.
func (p *Pending) prepare(ctx context.Context, t *Ticket, g generation.Request) {
	if p.err = p.engine.validate(&g); p.err != nil {
		return
	}
	if p.err = t.take(g.N); p.err != nil {
		return
	}
	err := ctx.Err()
	if err == nil {
		p.job, err = p.engine.newJob(g)
	}
	if err != nil {
		p.refuse(err)
	}
}

// refuse gives back what was taken for a job that no worker ever saw.
func (p *Pending) refuse(err error) {
	if p.job != nil {
		p.job.close()
	}
	p.job, p.err = nil, err
	p.engine.leave(p.n)
}

// Wait returns what became of the generation. The error is ErrModel (wrapped) when no
// context is left, a *generation.OverflowError, llama.ErrGrammar (wrapped) for a grammar that can't be
// used, ErrClosed, ErrReleased, or ctx.Err(), which frees what it had; what goes
// wrong later is in the completions. When a deadline passes after some candidates
// have ended, these are returned, and the others with its error. It must be called once.
func (p *Pending) Wait(ctx context.Context) (*generation.Result, error) {
	if p.err != nil {
		return nil, p.err
	}
	e, j := p.engine, p.job
	select {
	case <-j.done:
		defer e.leave(p.n)
		defer j.close()
		if j.err != nil {
			return nil, j.err
		}
		return j.result(e.model.Vocab()), nil
	case <-ctx.Done():
		e.cancel(j)
		go func() { // the samplers may be in use until the worker has let go of the job
			<-j.done
			j.close()
			e.leave(p.n)
		}()
		if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
			if r := j.partly(e.model.Vocab(), err); r != nil {
				return r, nil
			}
		}
		return nil, ctx.Err()
	}
}

// Keep gives back all but n of the candidates that were not generated.
func (t *Ticket) Keep(n int) {
	t.mu.Lock()
	given := max(0, t.left-max(0, n))
	t.left -= given
	t.mu.Unlock()
	t.engine.free(given)
}

// Release gives back the candidates that were not generated. Call it when no
// Generate will follow; a second call does nothing.
func (t *Ticket) Release() { t.Keep(0) }

func (t *Ticket) take(n int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n > t.left {
		return fmt.Errorf("%w: %d candidates, %d are left", ErrReleased, n, t.left)
	}
	// Close waits for the calls that it did not refuse.
	if err := t.engine.enter(); err != nil {
		return err
	}
	t.left -= n
	return nil
}

func (e *Engine) enter() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	e.calls.Add(1)
	return nil
}

func (e *Engine) leave(candidates int) {
	e.free(candidates)
	e.calls.Done()
}

func (e *Engine) free(candidates int) {
	e.mu.Lock()
	e.admitted -= candidates
	e.mu.Unlock()
}

func (e *Engine) validate(g *generation.Request) error {
	switch {
	case g.N < 1:
		return fmt.Errorf("scheduler: N is %d, must be at least 1", g.N)
	case len(g.Seeds) != g.N:
		return fmt.Errorf("scheduler: %d seeds for N = %d", len(g.Seeds), g.N)
	case g.MaxTokens < 1:
		return fmt.Errorf("scheduler: MaxTokens is %d, must be at least 1", g.MaxTokens)
	case len(g.Prompt) == 0:
		return errors.New("scheduler: the prompt is empty")
	case g.IgnoreEnd && g.Grammar != "":
		return errors.New("scheduler: IgnoreEnd and a grammar exclude each other")
	case g.IgnoreEnd && g.StopRepeats:
		return errors.New("scheduler: IgnoreEnd and StopRepeats exclude each other")
	case g.MaxTokens > e.cells || len(g.Prompt)+g.MaxTokens > e.cells:
		return &generation.OverflowError{Prompt: len(g.Prompt), MaxNew: g.MaxTokens, Limit: e.cells}
	}
	size := llama.Token(e.model.Vocab().Size())
	for i, t := range g.Prompt {
		if t < 0 || t >= size {
			return fmt.Errorf("scheduler: token %d of the prompt is %d, the vocabulary has %d", i, t, size)
		}
	}
	return nil
}

// job is a generation on its way. It belongs to its worker until done is closed,
// which happens in any case.
type job struct {
	id       core.JobID
	g        generation.Request
	blocks   []core.PrefixHash // of the prompt, if there are several workers
	samplers []*llama.Sampler
	done     chan struct{}

	err    error // of the whole generation
	cached int
	cands  []candidate
	times  generation.Times

	// mu guards what has ended before the rest, for a caller whose time is up: the numbers of the
	// candidates, which change no more, and the fields above as they were.
	mu          sync.Mutex
	ended       []int
	endedCached int
	endedTimes  generation.Times

	// Engine.mu guards these.
	worker    *worker        // who has it
	tried     uint64         // the workers that had it, a bit for each
	cancelled bool           // its caller has gone
	fatal     int            // devices that were lost in a step with it
	cost      int            // tokens that it still was to compute when its worker got it
	fresh     *llama.Sampler // before its first token, to begin again elsewhere, if there are several workers
}

type candidate struct {
	tokens []core.Token
	stop   llama.Token
	finish generation.Finish
	err    error

	calls    *callReader // nil: no calls are looked for
	repeated string      // see Completion
}

func (e *Engine) newJob(g generation.Request) (*job, error) {
	j := &job{
		g: g, done: make(chan struct{}),
		samplers: make([]*llama.Sampler, 0, g.N),
		cands:    make([]candidate, g.N),
		times:    generation.Times{Submitted: e.now()},
	}
	first, err := e.model.NewSampler(samplerConfig(&g, e.endings))
	if err != nil {
		return nil, err
	}
	if len(e.workers) > 1 {
		j.blocks = prefixBlocks(j.g.Prompt) // here, not where steps wait for it
		j.fresh = first
	} else {
		j.samplers = append(j.samplers, first)
	}
	if err := j.seed(first); err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

// samplerConfig returns the configuration of a request's first candidate.
func samplerConfig(g *generation.Request, endings []llama.Token) llama.SamplerConfig {
	cfg := llama.SamplerConfig{
		Temperature: g.Temperature, TopP: g.TopP, MinP: g.MinP, TopK: g.TopK, Seed: g.Seeds[0],
		Grammar: g.Grammar, SuppressControl: g.SuppressControl, Suppress: g.Suppress,
	}
	if g.IgnoreEnd {
		cfg.Suppress = slices.Concat(g.Suppress, endings)
	}
	return cfg
}

// seed makes the samplers that there are not yet from one that has sampled nothing.
func (j *job) seed(from *llama.Sampler) error {
	j.mu.Lock()
	for i := range j.cands {
		j.cands[i] = candidate{stop: -1}
		if j.g.StopRepeats && j.g.Calls.Begin != "" {
			j.cands[i].calls = &callReader{form: j.g.Calls}
		}
	}
	j.ended = nil
	j.mu.Unlock()
	for _, seed := range j.g.Seeds[len(j.samplers):] {
		s, err := from.CloneSeed(seed) // the grammar is parsed once
		if err != nil {
			return err
		}
		j.samplers = append(j.samplers, s)
	}
	return nil
}

// again makes the job what it was when it was submitted.
func (j *job) again() error {
	for _, s := range j.samplers {
		_ = s.Close() // fails only when closed already
	}
	j.samplers, j.cached = j.samplers[:0], 0
	return j.seed(j.fresh)
}

// started notes when its prompt got a sequence for the first time.
func (j *job) started(now time.Time) {
	if j.times.Queue == 0 {
		j.times.Queue = now.Sub(j.times.Submitted)
	}
}

// firstToken notes when a token of it was sampled for the first time.
func (j *job) firstToken(now time.Time) {
	if j.times.FirstToken == 0 {
		j.times.FirstToken = now.Sub(j.times.Submitted)
	}
}

// close frees the samplers, once the worker has let go of the job.
func (j *job) close() {
	for _, s := range j.samplers {
		_ = s.Close() // fails only when closed already
	}
	if j.fresh != nil {
		_ = j.fresh.Close()
	}
}

// endOf notes that a candidate has ended; cached is of its job.
func (j *job) endOf(candidate, cached int, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = append(j.ended, candidate)
	j.endedCached, j.endedTimes = cached, j.times
	j.endedTimes.End = now.Sub(j.times.Submitted)
}

func (j *job) result(v *llama.Vocab) *generation.Result {
	r := &generation.Result{PromptTokens: len(j.g.Prompt), CachedTokens: j.cached, Completions: make([]generation.Completion, len(j.cands)), Times: j.times}
	for i := range j.cands {
		r.Completions[i] = j.cands[i].completion(v)
	}
	return r
}

// partly is the result of the candidates that have ended by now, with an error for the
// others; nil if none has.
func (j *job) partly(v *llama.Vocab, err error) *generation.Result {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.ended) == 0 {
		return nil
	}
	r := &generation.Result{PromptTokens: len(j.g.Prompt), CachedTokens: j.endedCached, Completions: make([]generation.Completion, len(j.cands)), Times: j.endedTimes}
	for i := range r.Completions {
		r.Completions[i] = generation.Completion{Finish: generation.FinishError, Err: err}
	}
	for _, i := range j.ended {
		r.Completions[i] = j.cands[i].completion(v)
	}
	return r
}

func (c *candidate) completion(v *llama.Vocab) generation.Completion {
	done := generation.Completion{Tokens: c.tokens, Text: v.Detokenize(c.tokens, true), Finish: c.finish, Repeated: c.repeated, Err: c.err}
	if c.stop >= 0 {
		done.Stop = string(v.Piece(c.stop, true))
	}
	return done
}
