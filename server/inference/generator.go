package inference

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"agentd/agent"
	"agentd/llama"
	"agentd/scheduler"
	"agentd/scheduler/generation"
	"agentd/server"
)

// generator lets the agent use one request's admission to the engine: it
// tokenizes, submits, and translates results and errors.
type generator struct {
	tokenizer *tokenizer
	vocab     *llama.Vocab
	ticket    *scheduler.Admission // nil when nothing was to be generated
	trained   int                  // context length of the model's training; 0: unknown
	cells     int                  // of a context
	latency   *latency
}

var _ agent.Reserved = (*generator)(nil)

// AtMost gives back what the request was admitted for and will not ask for.
func (g *generator) AtMost(completions int) {
	if g.ticket != nil {
		g.ticket.Keep(completions)
	}
}

// Generate completes prompts of a request. They are tokenized in parallel and
// submitted together.
func (g *generator) Generate(ctx context.Context, gs []agent.Generation, done func(int, agent.Result, error)) {
	refused := make([]error, len(gs))
	all := make([]generation.Request, len(gs))
	var tokenizing errgroup.Group
	tokenizing.SetLimit(runtime.GOMAXPROCS(0))
	for i := range gs {
		tokenizing.Go(func() error {
			refused[i] = guard(func() (err error) {
				all[i], err = g.generation(ctx, &gs[i])
				return err
			})
			return nil
		})
	}
	_ = tokenizing.Wait() // no function of it fails

	var submitted []generation.Request
	var indices []int // of submitted among gs
	for i, err := range refused {
		if err == nil {
			submitted = append(submitted, all[i])
			indices = append(indices, i)
		}
	}
	var pending []*scheduler.Handle
	if len(submitted) > 0 {
		pending = g.ticket.Submit(ctx, submitted)
	}
	var ends sync.WaitGroup
	for k, p := range pending {
		ends.Go(func() {
			var result agent.Result
			err := guard(func() (err error) {
				result, err = g.wait(ctx, p)
				return err
			})
			done(indices[k], result, err)
		})
	}
	for i, err := range refused {
		if err != nil {
			done(i, agent.Result{}, translate(err))
		}
	}
	ends.Wait()
}

// guard makes a panic an error: it ends only one generation.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &agent.ModelError{Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	return f()
}

// generation is what the engine is asked for.
func (g *generator) generation(ctx context.Context, gen *agent.Generation) (generation.Request, error) {
	if g.ticket == nil {
		return generation.Request{}, errors.New("a generation was not admitted")
	}
	if err := g.tooLong(gen); err != nil {
		return generation.Request{}, err
	}
	prompt, err := g.tokenizer.tokens(ctx, gen.Prompt)
	if err != nil {
		return generation.Request{}, err
	}
	if g.trained > 0 && len(prompt)+gen.MaxTokens > g.trained {
		// The KV cache may be larger, to hold several sequences.
		return generation.Request{}, &generation.OverflowError{Prompt: len(prompt), Limit: g.trained, MaxNew: gen.MaxTokens}
	}
	sampling := generation.Sampling(gen.Sampling)
	if gen.Greedy {
		sampling.Temperature = 0
	}
	return generation.Request{Prompt: prompt, Params: generation.Params{
		N: gen.N, MaxTokens: gen.MaxTokens, Sampling: sampling, Seeds: gen.Seeds, Grammar: gen.Grammar,
		SuppressControl: gen.SuppressControl, IgnoreEnd: gen.IgnoreEnd,
		StopRepeats: gen.StopRepeats, Calls: generation.CallForm(gen.Calls),
	}}, nil
}

// tooLong refuses a prompt that can't fit the context however few tokens it has: to tokenize the largest
// bodies takes minutes. Others are counted, since a coach asks for a shorter answer then.
func (g *generator) tooLong(gen *agent.Generation) error {
	limit := g.cells
	if g.trained > 0 {
		limit = min(limit, g.trained)
	}
	bytes := 0
	for _, piece := range gen.Prompt {
		bytes += len(piece.Text)
	}
	if least := bytes / g.vocab.LongestPiece(); least >= limit {
		return &agent.ContextOverflowError{Prompt: least, Limit: limit, MaxNew: gen.MaxTokens, AtLeast: true}
	}
	return nil
}

// wait returns a generation's completions.
func (g *generator) wait(ctx context.Context, p *scheduler.Handle) (result agent.Result, err error) {
	out, err := p.Wait(ctx)
	if gone := ctx.Err(); gone != nil && (err != nil || errors.Is(gone, context.Canceled)) {
		return result, gone // the engine returns the cause, which may be anything
	}
	if err != nil {
		return result, translate(err)
	}
	if ctx.Err() == nil { // else others of its candidates did not end by themselves
		g.latency.observe(out)
	}
	if t := out.Times; t.FirstToken > 0 {
		server.TimingOf(ctx).Generation(t.Submitted.Add(t.Queue), t.Submitted.Add(t.FirstToken))
	}
	result = agent.Result{
		PromptTokens: out.PromptTokens,
		CachedTokens: out.CachedTokens,
		Completions:  make([]agent.Completion, len(out.Completions)),
	}
	for i, c := range out.Completions {
		result.Completions[i] = g.completion(c)
	}
	return result, nil
}

func (g *generator) completion(c generation.Completion) agent.Completion {
	done := agent.Completion{Text: c.Text, Tokens: len(c.Tokens), Stop: c.Stop, Finish: string(c.Finish), Repeated: c.Repeated}
	if c.Err != nil {
		done.Err = translate(c.Err)
	}
	return done
}

// translate turns the engine's errors into the agent's. Those of a context stay
// as they are: the agent tells a deadline from a caller that left.
func translate(err error) error {
	var overflow *generation.OverflowError
	var defect *agent.ModelError
	switch {
	case errors.As(err, &defect), errors.As(err, &overflow): // defect is of guard
		return err
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, generation.ErrClosed), errors.Is(err, llama.ErrClosed):
		return agent.ErrClosed
	case errors.Is(err, llama.ErrGrammar), errors.Is(err, llama.ErrGrammarDead):
		return &agent.GrammarError{Err: err}
	}
	return &agent.ModelError{Err: err}
}
