package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// wait returns the result of a submitted request, or the error of all of it: ErrModel (wrapped) where no context
// is left, ErrClosed, one of packages generation and llama about the request, or ctx.Err(), which also frees its
// sequences. Later errors are in the completions. A paused request keeps its queue places, to be submitted again.
// If a deadline passes after some candidates have ended, wait returns these, and the others with its error.
func (a *Admission) wait(ctx context.Context, r *request) (*generation.Result, error) {
	e := a.engine
	r = e.follow(ctx, r)
	select {
	case <-r.done:
		if r.err != nil {
			e.release(r)
			return nil, r.err
		}
		result := r.result(e.vocab)
		if result.Paused() {
			a.keepPlaces(r)
		} else {
			e.release(r)
		}
		return result, nil
	default: // ctx has ended
		e.cancel(r)
		go func() { // the worker may use the samplers until then
			<-r.done
			e.release(r)
		}()
		if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
			if partial := r.partialResult(e.vocab, err); partial != nil {
				return partial, nil
			}
		}
		return nil, ctx.Err()
	}
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
		return errors.New("scheduler: IgnoreEnd and Grammar exclude each other")
	case g.IgnoreEnd && g.StopRepeats:
		return errors.New("scheduler: IgnoreEnd and StopRepeats exclude each other")
	case g.Distinct != nil && (g.Temperature > 0 || g.Scores || g.IgnoreEnd || g.Progress != nil):
		return errors.New("scheduler: Distinct excludes a Temperature above 0, Scores, IgnoreEnd and Progress")
	case g.Resume != nil && (g.Distinct != nil || len(g.Resume.Completions) != g.N):
		return fmt.Errorf("scheduler: Resume needs %d completions, and excludes Distinct", g.N)
	case g.MaxTokens > e.cells || len(g.Prompt)+g.MaxTokens > e.cells:
		return &generation.OverflowError{Prompt: len(g.Prompt), MaxNew: g.MaxTokens, Limit: e.cells}
	}
	if _, err := e.adapterOf(g.Adapter, e.workers[0]); err != nil {
		return err
	}
	size := llama.Token(e.vocab.Size())
	for i, t := range g.Prompt {
		if t < 0 || t >= size {
			return fmt.Errorf("scheduler: token %d of the prompt is %d, the vocabulary has %d", i, t, size)
		}
	}
	return nil
}

// request is a submitted request. It belongs to its worker until done is closed, which
// always happens.
type request struct {
	id       core.RequestID
	gen      generation.Request
	blocks   []core.PrefixHash // of the prompt, if there are several workers
	samplers []*llama.Sampler
	done     chan struct{}
	leave    chan struct{} // takes a value while its context is stuck
	more     chan struct{} // takes a value when candidates have ended, for gen.Each

	err        error // of the whole request
	cached     int
	candidates []generation.Completion // so far, see completed
	tree       *tree                   // of generation.Params.Distinct, while a worker has the request
	times      generation.Times

	// mu guards what a caller whose deadline passes may read: the candidates that have ended,
	// which do not change, and cached and times as of then. A search has found instead.
	mu          sync.Mutex
	ended       []int
	given       int // of ended, to gen.Each
	found       []generation.Completion
	endedCached int
	endedTimes  generation.Times

	// Engine.mu guards these.
	worker      *worker        // current owner
	tried       uint64         // bit set of former and current owners
	cancelled   bool           // the caller has left
	lostDevices int            // devices lost in a step with this request
	cost        int            // tokens to compute, as estimated at assignment
	template    *llama.Sampler // an unused sampler for restarts, if there are several workers, and for the branches of a tree
}

// failed is the completion of a candidate that failed.
func failed(tokens []core.Token, err error) generation.Completion {
	return generation.Completion{Tokens: tokens, StopToken: -1, Finish: generation.FinishError, Err: err}
}

func (e *Engine) newRequest(gen generation.Request) (*request, error) {
	r := &request{
		gen: gen, done: make(chan struct{}), leave: make(chan struct{}, 1), more: make(chan struct{}, 1),
		samplers:   make([]*llama.Sampler, 0, gen.N),
		candidates: make([]generation.Completion, gen.N),
		times:      generation.Times{Submitted: e.now()},
	}
	first, err := e.model.NewSampler(samplerConfig(&gen, e.endings))
	if err != nil {
		return nil, err
	}
	if gen.Resume != nil && !gen.Resume.Times.Submitted.IsZero() {
		r.times = gen.Resume.Times
	}
	if len(e.workers) > 1 {
		r.blocks = prefixBlocks(gen.Adapter, gen.Prompt) // not under the engine's lock
	}
	if len(e.workers) > 1 || gen.Distinct != nil {
		r.template = first
	} else {
		r.samplers = append(r.samplers, first)
	}
	if err := r.seedSamplers(first, e.vocab); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// samplerConfig returns the configuration of the first candidate's sampler.
func samplerConfig(g *generation.Request, endings []llama.Token) llama.SamplerConfig {
	cfg := llama.SamplerConfig{
		Temperature: g.Temperature, TopP: g.TopP, MinP: g.MinP, TopK: g.TopK, Seed: g.Seeds[0],
		Grammar: g.Grammar, SuppressControl: g.SuppressControl, Suppress: g.Suppress, Score: g.Scores,
	}
	if g.Distinct != nil {
		cfg.Score, cfg.Temperature, cfg.TopP, cfg.MinP, cfg.TopK = true, 1, 0, 0, 0
	}
	if g.IgnoreEnd {
		cfg.Suppress = slices.Concat(g.Suppress, endings)
	}
	return cfg
}

// seedSamplers clones the missing samplers from an unused one and resets the candidates, to where
// Params.Resume has them.
func (r *request) seedSamplers(from *llama.Sampler, v *llama.Vocab) error {
	r.mu.Lock()
	for i := range r.candidates {
		r.candidates[i] = generation.Completion{StopToken: -1}
	}
	r.ended, r.given, r.found = nil, 0, nil
	r.mu.Unlock()
	if r.gen.Distinct != nil {
		return nil // its branches have them
	}
	for _, seed := range r.gen.Seeds[len(r.samplers):] {
		s, err := from.CloneSeed(seed) // the grammar is parsed once
		if err != nil {
			return err
		}
		r.samplers = append(r.samplers, s)
	}
	return r.resume(v)
}

// restart resets the request to its state at submission.
func (r *request) restart(v *llama.Vocab) error {
	if r.gen.Progress != nil {
		r.gen.Progress(-1, nil)
	}
	for _, s := range r.samplers {
		_ = s.Close() // fails only if closed already
	}
	r.samplers, r.cached = r.samplers[:0], 0
	if err := r.seedSamplers(r.template, v); err != nil || r.gen.Progress == nil {
		return err
	}
	for i := range r.candidates {
		if begun := r.candidates[i].Tokens; len(begun) > 0 {
			r.gen.Progress(i, begun)
		}
	}
	return nil
}

// reach records when an event of times first happened.
func (r *request) reach(event *time.Duration, now time.Time) {
	if *event == 0 {
		*event = now.Sub(r.times.Submitted)
	}
}

// recordEnd records that a candidate has ended.
func (r *request) recordEnd(candidate, cached int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, candidate)
	r.endedCached, r.endedTimes = cached, r.times
	r.endedTimes.End = now.Sub(r.times.Submitted)
	if r.gen.Each != nil {
		select {
		case r.more <- struct{}{}:
		default:
		}
	}
}

// giveEach gives the caller the candidates that have ended since the last call.
func (r *request) giveEach(v *llama.Vocab) {
	r.mu.Lock()
	fresh := r.ended[r.given:]
	r.given = len(r.ended)
	result := r.endedResult(v, fresh)
	r.mu.Unlock()
	for _, i := range fresh {
		r.gen.Each(result, i)
	}
}

// endedResult is a result with these completions. mu is held.
func (r *request) endedResult(v *llama.Vocab, ended []int) *generation.Result {
	result := &generation.Result{
		PromptTokens: len(r.gen.Prompt), CachedTokens: r.cachedTokens(r.endedCached), Times: r.endedTimes,
		Completions: make([]generation.Completion, len(r.candidates)),
	}
	for _, i := range ended {
		result.Completions[i] = completed(&r.candidates[i], v)
	}
	return result
}

// recordFound records what a search has found so far.
func (r *request) recordFound(list []generation.Completion, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found, r.endedCached, r.endedTimes = list, r.cached, r.times
	r.endedTimes.End = now.Sub(r.times.Submitted)
}

func (r *request) result(v *llama.Vocab) *generation.Result {
	result := &generation.Result{
		PromptTokens: len(r.gen.Prompt), CachedTokens: r.cachedTokens(r.cached), Times: r.times,
		Completions: make([]generation.Completion, len(r.candidates)),
	}
	for i := range r.candidates {
		result.Completions[i] = completed(&r.candidates[i], v)
	}
	return result
}

// partialResult returns the candidates that have ended or that a search has found, and err for
// the others. It returns nil if there are none.
func (r *request) partialResult(v *llama.Vocab, err error) *generation.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ended)+len(r.found) == 0 {
		return nil
	}
	result := r.endedResult(v, r.ended)
	for i := range r.found {
		result.Completions[i] = completed(&r.found[i], v)
	}
	for i := range result.Completions {
		if c := &result.Completions[i]; c.Finish == "" {
			c.Finish, c.Err = generation.FinishError, err
		}
	}
	return result
}

// completed is the completion of a candidate, which has no texts yet. The candidate's StopToken is -1 if no token
// ended it, and it has the scores of dropped tokens too.
func completed(c *generation.Completion, v *llama.Vocab) generation.Completion {
	done := *c
	done.Text, done.StopToken, done.Err = v.Detokenize(c.Tokens, true), 0, public(c.Err)
	scored := len(c.Tokens)
	if c.StopToken >= 0 {
		done.Stop, done.StopToken = string(v.Piece(c.StopToken, true)), c.StopToken
		scored++
	}
	done.Scores = c.Scores[:min(scored, len(c.Scores))]
	return done
}

// close frees the samplers, once the worker no longer uses them.
func (r *request) close() {
	for _, s := range r.samplers {
		_ = s.Close() // fails only if closed already
	}
	if r.template != nil {
		_ = r.template.Close()
	}
}
