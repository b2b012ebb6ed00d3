package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// wait returns the result of a submitted request, or the error of all of it: ErrModel (wrapped) if no context is left,
// ErrClosed, an error of package generation or llama about the request, or ctx.Err(), which also frees its sequences.
// Errors of single candidates are in the completions. A paused request keeps its queue places, to be submitted again.
// If a deadline passes after some candidates have ended, the others get its error in their completions.
func (a *admission) wait(ctx context.Context, r *request) (*generation.Result, error) {
	e := a.engine
	left, abort := false, r.gen.Abort // ctx has ended
	for waits := true; waits; {
		select {
		case <-r.more:
			r.receive(e.vocab)
		case <-r.leave:
			r = e.resubmit(r, false)
			abort = r.gen.Abort
		case <-abort:
			abort = nil
			e.end(r, interrupt)
		case <-r.done:
			next := r
			if r.retry {
				next = e.resubmit(r, true)
			}
			waits, r, abort = next != r, next, r.gen.Abort
		case <-a.gone:
			waits = false
		case <-ctx.Done():
			waits, left = false, true
		}
	}
	r.receive(e.vocab)
	ended := true
	select {
	case <-r.done:
	default:
		ended = false
	}
	switch {
	case ended && left && r.retry: // there is no time to try another context
		r.failed = false
	case ended && r.err != nil:
		a.release(r, false)
		return nil, r.err
	case ended:
		result := r.result(e.vocab, r.cached, r.times, r.candidates, nil)
		a.release(r, result.Paused())
		return result, nil
	}
	e.end(r, cancel)
	go func() { // the worker may use the samplers until then
		<-r.done
		a.release(r, false)
	}()
	if !left {
		return nil, a.Refusal()
	}
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		if partial := r.partialResult(e.vocab, err); partial != nil {
			return partial, nil
		}
	}
	return nil, ctx.Err()
}

func (e *Engine) validate(g *generation.Request) error {
	switch {
	case g.N < 1:
		return fmt.Errorf("scheduler: N is %d, must be at least 1", g.N)
	case len(g.Seeds) != g.N:
		return fmt.Errorf("scheduler: %d seeds for N = %d", len(g.Seeds), g.N)
	case g.MaxTokens < 0 || g.MaxTokens == 0 && g.ScoreFrom == 0:
		return fmt.Errorf("scheduler: MaxTokens is %d, must be at least 1", g.MaxTokens)
	case len(g.Prompt) == 0:
		return errors.New("scheduler: the prompt is empty")
	case g.ScoreFrom < 0 || g.ScoreFrom > len(g.Prompt) || g.MaxTokens == 0 && g.ScoreFrom == len(g.Prompt):
		return fmt.Errorf("scheduler: ScoreFrom is %d in a prompt of %d tokens", g.ScoreFrom, len(g.Prompt))
	case g.Masks && !g.Scores:
		return errors.New("scheduler: Masks needs Scores")
	case g.Stream && g.Watch == nil:
		return errors.New("scheduler: Stream needs Watch")
	case (g.IgnoreEnd || g.Least > 0) && g.Grammar != "":
		return errors.New("scheduler: IgnoreEnd and Least exclude Grammar")
	case g.IgnoreEnd && g.StopRepeats:
		return errors.New("scheduler: IgnoreEnd and StopRepeats exclude each other")
	case g.Distinct != nil && (g.Temperature > 0 || g.Scores || g.ScoreFrom > 0 || g.IgnoreEnd || g.Stop != nil || g.Stream):
		return errors.New("scheduler: Distinct excludes a Temperature above 0, Scores, ScoreFrom, IgnoreEnd, Stop and Stream")
	case g.Choice != nil && (g.N != 1 || g.Distinct != nil || g.Temperature > 0 || g.Grammar != "" || g.Scores || g.ScoreFrom > 0 || g.IgnoreEnd || g.Least > 0 || g.StopRepeats || g.Stop != nil || g.Stream):
		return errors.New("scheduler: Choice has one completion, and excludes what chooses tokens")
	case g.Choice != nil && (len(g.Choice.Answers) == 0 || g.MaxTokens < g.Choice.MaxTokens()):
		return fmt.Errorf("scheduler: Choice needs answers, and a MaxTokens of at least %d", g.Choice.MaxTokens())
	case g.Resume != nil && (g.Distinct != nil || g.Choice != nil || len(g.Resume.Completions) != g.N):
		return fmt.Errorf("scheduler: Resume needs %d completions, and excludes Distinct and Choice", g.N)
	case g.MaxTokens > e.cells || len(g.Prompt)+g.MaxTokens > e.cells:
		return &generation.OverflowError{Prompt: len(g.Prompt), MaxNew: g.MaxTokens, Limit: e.cells}
	}
	if g.Adapter != 0 {
		if _, err := e.adapterOf(g.Adapter, e.workers[0]); err != nil {
			return err
		}
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
	forces   bool // a grammar can force its tokens
	done     chan struct{}
	leave    chan struct{} // has a value while the request should leave its stuck context
	more     chan struct{} // has a value when there are events

	err        error                   // of the whole request
	failed     bool                    // a computation failed
	retry      bool                    // another context may compute it
	cached     int                     // prompt tokens from the prefix cache
	candidates []generation.Completion // so far, see result
	forced     [][]int                 // core.Request.Forced
	masked     []int                   // for each candidate: tokens in its masks so far
	texts      []stopText              // for each candidate, with generation.Params.Stop: its text so far
	tree       *tree                   // with generation.Params.Distinct or Choice, while a worker has the request
	spellings  *spellings              // with generation.Params.Choice
	times      generation.Times
	// lostDevices counts devices that were lost in a step with this request.
	lostDevices int

	// mu guards what the caller may read before done is closed: scores of the prompt, and events. Ended candidates
	// do not change.
	mu     sync.Mutex
	prompt []generation.Score // with generation.Params.ScoreFrom
	events []event            // not yet received by the caller

	// Only the caller uses these.
	ended []int // candidates that have ended
	last  event // the last one about an end

	// Engine.mu guards these.
	worker *worker // nil if it was paused before it had one
	// places is the number of queue places of its candidates. A candidate that ends gives its place back.
	admission *admission
	places    int
	tried     uint64 // bit i: context i has had it
	cost      int    // tokens to compute, estimated by assign
}

// event is a worker's report to the caller of a request that has not ended.
type event struct {
	generation.Event
	// For Ended: instead of a completion, those that a search has found so far; prompt tokens from the cache; times.
	found  []generation.Completion
	cached int
	times  generation.Times
}

// stopText is the text of a candidate, in which generation.Stop looks for its texts.
type stopText struct {
	strings.Builder
	has bool // it contains a text of Stop, which may become visible later
}

// add appends a piece, and reports whether a text of s ends the candidate. Until has is set, only the end of the text
// is searched.
func (t *stopText) add(s *generation.Stop, piece []byte) bool {
	t.Write(piece)
	text := t.String()
	t.has = t.has || s.Has(s.Tail(text, len(piece)))
	return t.has && s.Ends(text)
}

// failed returns the completion of a candidate that failed.
func failed(tokens []core.Token, err error) generation.Completion {
	return generation.Completion{Tokens: tokens, StopToken: -1, Finish: generation.FinishError, Err: err}
}

// newRequest checks a request and makes its samplers. A request with Distinct has one sampler, which its branches copy.
func (e *Engine) newRequest(gen generation.Request) (*request, error) {
	if err := e.validate(&gen); err != nil {
		return nil, err
	}
	r := &request{
		gen: gen, done: make(chan struct{}), leave: make(chan struct{}, 1), more: make(chan struct{}, 1),
		samplers:   make([]*llama.Sampler, 0, gen.N),
		forces:     !e.cfg.NoForcedTokens && !gen.Sample && gen.Grammar != "",
		candidates: slices.Repeat([]generation.Completion{{StopToken: -1}}, gen.N),
		times:      generation.Times{Submitted: e.now()},
		masked:     make([]int, gen.N),
	}
	if gen.ScoreFrom > 0 {
		r.prompt = slices.Repeat([]generation.Score{{Logprob: float32(math.NaN())}}, len(gen.Prompt)-gen.ScoreFrom)
	}
	if gen.Resume != nil && !gen.Resume.Times.Submitted.IsZero() {
		r.times = gen.Resume.Times
		copy(r.prompt, gen.Resume.PromptScores)
	}
	if len(e.workers) > 1 {
		r.blocks = prefixBlocks(gen.Adapter, gen.Salt, gen.Prompt) // not under the engine's lock
	}
	if gen.Choice != nil {
		var err error
		r.spellings, err = e.newSpellings(&gen)
		return r, err
	}
	cfg := llama.SamplerConfig{
		Temperature: gen.Temperature, TopP: gen.TopP, MinP: gen.MinP, TopK: gen.TopK, Seed: gen.Seeds[0],
		Grammar: gen.Grammar, SuppressControl: gen.SuppressControl, Suppress: gen.Suppress, Score: gen.Scores, Top: gen.Top,
		Least: gen.Least,
	}
	if gen.IgnoreEnd {
		cfg.Suppress = slices.Concat(gen.Suppress, e.endings)
	}
	if gen.Masks {
		cfg.Mask = generation.MaxMask
	}
	seeds := gen.Seeds[1:]
	if gen.Distinct != nil {
		cfg.Score, cfg.Temperature, cfg.TopP, cfg.MinP, cfg.TopK = true, 1, 0, 0, 0
		seeds = nil
	}
	first, err := e.model.NewSampler(cfg)
	if err != nil {
		return nil, err
	}
	r.samplers = append(r.samplers, first)
	for _, seed := range seeds {
		s, err := first.CloneSeed(seed) // the grammar is parsed once
		if err != nil {
			r.close()
			return nil, err
		}
		r.samplers = append(r.samplers, s)
	}
	if gen.Resume != nil {
		if err := r.resume(e.vocab); err != nil {
			r.close()
			return nil, err
		}
	}
	if gen.Stop != nil {
		r.texts = make([]stopText, gen.N)
		for i := range r.candidates {
			for _, token := range r.candidates[i].Tokens {
				r.texts[i].add(gen.Stop, e.vocab.Piece(token, true))
			}
		}
	}
	return r, nil
}

// reach sets a duration of r.times, unless it is set already.
func (r *request) reach(event *time.Duration, now time.Time) {
	if *event == 0 {
		*event = now.Sub(r.times.Submitted)
	}
}

// record reports that a candidate has ended; with -1, the completions that a search has found so far.
func (r *request) record(candidate int, found []generation.Completion, cached int, now time.Time) {
	e := event{generation.Event{Completion: candidate}, found, cached, r.times}
	e.times.End = now.Sub(r.times.Submitted)
	r.emit(e)
}

// emit queues an event for the caller.
func (r *request) emit(e event) {
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
	signal(r.more)
}

// receive takes the queued events, and calls gen.Watch with them.
func (r *request) receive(v *llama.Vocab) {
	r.mu.Lock()
	list := r.events
	r.events = nil
	r.mu.Unlock()
	for _, e := range list {
		if e.Kind == generation.Ended {
			if r.last = e; e.Completion < 0 {
				continue
			}
			r.ended = append(r.ended, e.Completion)
		}
		if r.gen.Watch == nil {
			continue
		}
		if e.Kind == generation.Ended {
			e.Result = r.result(v, e.cached, e.times, r.candidates, r.ended[len(r.ended)-1:])
		}
		r.gen.Watch(e.Event)
	}
}

// partialResult returns the candidates that have ended or that a search has found, with err for the
// others. It returns nil if no candidate has ended.
func (r *request) partialResult(v *llama.Vocab, err error) *generation.Result {
	from, which := r.candidates, r.ended
	if len(r.last.found) > 0 {
		from, which = r.last.found, nil
	} else if len(r.ended) == 0 {
		return nil
	}
	result := r.result(v, r.last.cached, r.last.times, from, which)
	for i := range result.Completions {
		if c := &result.Completions[i]; c.Finish == "" {
			c.Finish, c.Err = generation.FinishError, err
		}
	}
	return result
}

// result returns a result with the completions whose indexes are in which; nil: all. The completions of from have no
// texts yet, a StopToken of -1 if no token ended them, and scores of dropped tokens.
func (r *request) result(v *llama.Vocab, cached int, times generation.Times, from []generation.Completion, which []int) *generation.Result {
	r.mu.Lock()
	prompt := slices.Clone(r.prompt)
	r.mu.Unlock()
	result := &generation.Result{
		PromptTokens: len(r.gen.Prompt), CachedTokens: cached, Times: times, PromptScores: prompt,
		Completions: make([]generation.Completion, len(r.candidates)),
	}
	if r.gen.Resume != nil { // what was not computed when the prompt was first computed, or since then
		result.CachedTokens = max(cached, r.gen.Resume.CachedTokens)
	}
	for i := range from {
		if which != nil && !slices.Contains(which, i) {
			continue
		}
		c, done := &from[i], &result.Completions[i]
		*done = *c
		done.Text, done.StopToken = v.Detokenize(c.Tokens, true), 0
		scored := len(c.Tokens)
		if c.StopToken >= 0 {
			done.Stop, done.StopToken = string(v.Piece(c.StopToken, true)), c.StopToken
			scored++
		}
		done.Scores = c.Scores[:min(scored, len(c.Scores))]
	}
	return result
}

// close frees the samplers, once the worker no longer uses them.
func (r *request) close() {
	for _, s := range r.samplers {
		_ = s.Close() // fails only if closed already
	}
}
