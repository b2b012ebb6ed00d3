package inference

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentd/agent"
	"agentd/llama"
	"agentd/protocol"
)

// Prompts makes the prompts that a Service would give to its model, from the
// model's vocabulary and chat template alone: no weights are loaded. It may be used
// by any number of goroutines.
type Prompts struct{ service *Service }

// Prompt is what the model is given for an input.
type Prompt struct {
	Text    string // with special tokens as text: the full_prompt of internal steps
	Tokens  []llama.Token
	Grammar string // in llama.cpp's GBNF without marks (agent.PlainGrammar), root rule "root"; "": no constraint
}

// OpenPrompts loads the vocabulary of the model at cfg.Path, which must be given.
// Of the other options those of the agent count.
func OpenPrompts(ctx context.Context, cfg Config) (p *Prompts, err error) {
	if err := llama.Init(cfg.Log); err != nil {
		return nil, err
	}
	_, pluginErr := llama.LoadBackends(llama.LibDir()) // counts only where the CPU's is missing too
	s := new(Service)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	s.model, err = llama.New(cfg.Path, llama.SetCancel(ctx), llama.SetVocabOnly(true), llama.SetDevices("cpu"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the vocabulary of %s could not be loaded: %w; check that it is a complete GGUF file", cfg.Path, err), pluginErr)
	}
	s.models = []*llama.Model{s.model} // for Close
	s.tokenizer = newTokenizer(s.model.Vocab())
	s.facts.Architecture = s.model.Info().Architecture
	if err := s.loadTemplate(cfg); err != nil {
		return nil, err
	}
	if err := s.makeAgent(cfg); err != nil {
		return nil, err
	}
	return &Prompts{s}, nil
}

// Of is the prompt of an input. An input for which a Service would not ask its
// model has none: that is an error which says why.
func (p *Prompts) Of(ctx context.Context, in protocol.AgentInput) (Prompt, error) {
	plan, err := p.service.agent.Prepare(&protocol.AgentRequest{RequestID: "prompt", Inputs: []protocol.AgentInput{in}})
	if err != nil {
		return Prompt{}, err
	}
	var asked capture
	outs, err := p.service.agent.Run(ctx, plan, &asked)
	switch {
	case err != nil:
		return Prompt{}, err
	case len(asked) == 0 && outs[0].Error != nil:
		return Prompt{}, fmt.Errorf("%s: %s", outs[0].Error.Code, outs[0].Error.Message)
	case len(asked) == 0:
		return Prompt{}, errors.New("it is a correction (extra_keys.coaching), which needs no model")
	}
	var text strings.Builder
	for _, piece := range asked[0].Prompt {
		text.WriteString(piece.Text)
	}
	tokens, err := p.service.tokenizer.tokens(ctx, asked[0].Prompt)
	return Prompt{text.String(), tokens, agent.PlainGrammar(asked[0].Grammar)}, err
}

// Close frees the vocabulary. Call it when no Of is running any more.
func (p *Prompts) Close() error { return p.service.Close() }

// capture is a generator that keeps what it is asked for and generates nothing.
type capture []agent.Generation

var errCaptured = errors.New("only the prompt was wanted")

// Generate keeps the generations.
func (c *capture) Generate(_ context.Context, gs []agent.Generation, done func(int, agent.Result, error)) {
	*c = append(*c, gs...)
	for i := range gs {
		done(i, agent.Result{}, errCaptured)
	}
}
