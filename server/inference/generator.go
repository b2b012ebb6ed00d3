package inference

import (
	"context"
	"errors"
	"fmt"

	"agentd/agent"
	"agentd/llama"
	"agentd/scheduler"
)

// generator lets the agent use one request's admission to the engine: it
// tokenizes, submits, and translates results and errors.
type generator struct {
	tokenizer *tokenizer
	vocab     *llama.Vocab
	ticket    *scheduler.Ticket // nil when nothing was to be generated
	trained   int               // context length of the model's training; 0: unknown
}

var _ agent.Generator = (*generator)(nil)

// Generate completes g.Prompt g.N times. A panic on the way ends only this
// generation.
func (g *generator) Generate(ctx context.Context, gen agent.Generation) (result agent.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &agent.ModelError{Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	if g.ticket == nil {
		return result, &agent.ModelError{Err: errors.New("a generation was not admitted")}
	}
	prompt, err := g.tokenizer.tokens(gen.Prompt)
	if err != nil {
		return result, translate(err)
	}
	if g.trained > 0 && len(prompt)+gen.MaxTokens > g.trained {
		// The KV cache may be larger, to hold several sequences.
		return result, &agent.ContextOverflowError{Prompt: len(prompt), Limit: g.trained, MaxNew: gen.MaxTokens}
	}
	sampler := llama.SamplerConfig{
		Temperature:     gen.Sampling.Temperature,
		TopP:            gen.Sampling.TopP,
		MinP:            gen.Sampling.MinP,
		TopK:            gen.Sampling.TopK,
		Grammar:         gen.Grammar,
		SuppressControl: gen.SuppressControl,
	}
	if gen.Greedy {
		sampler.Temperature = 0
	}
	out, err := g.ticket.Generate(ctx, scheduler.Generation{
		Prompt:    prompt,
		N:         gen.N,
		MaxTokens: gen.MaxTokens,
		Sampler:   sampler,
		Seeds:     gen.Seeds,
	})
	if ctx.Err() != nil {
		return result, ctx.Err() // the engine returns the cause, which may be anything
	}
	if err != nil {
		return result, translate(err)
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

func (g *generator) completion(c scheduler.Completion) agent.Completion {
	done := agent.Completion{Text: c.Text, Tokens: len(c.Tokens), Finish: string(c.Finish)}
	if c.Stop >= 0 {
		done.Stop = string(g.vocab.Piece(c.Stop, true))
	}
	if c.Err != nil {
		done.Err = translate(c.Err)
	}
	return done
}

// translate turns the engine's errors into the agent's. Those of a context stay
// as they are: the agent tells a deadline from a caller that left.
func translate(err error) error {
	var overflow *scheduler.ContextOverflowError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, scheduler.ErrClosed), errors.Is(err, llama.ErrClosed):
		return agent.ErrClosed
	case errors.As(err, &overflow):
		return &agent.ContextOverflowError{Prompt: overflow.Prompt, Limit: overflow.Limit, MaxNew: overflow.MaxNew}
	case errors.Is(err, llama.ErrGrammar), errors.Is(err, llama.ErrGrammarDead):
		return &agent.GrammarError{Err: err}
	}
	return &agent.ModelError{Err: err}
}
