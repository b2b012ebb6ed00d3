package inference

import (
	"context"
	"errors"
	"fmt"

	"agentd/agent"
	"agentd/llama"
	"agentd/protocol"
)

// Prompts renders the prompts that a Service gives to its model. It needs the model's vocabulary
// and chat template, and loads no weights. It is safe for concurrent use.
type Prompts struct{ service *Service }

// OpenPrompts loads the vocabulary of the model at cfg.Path, which is required. It uses the
// agent settings of the other options.
func OpenPrompts(ctx context.Context, cfg Config) (p *Prompts, err error) {
	if err := llama.Init(cfg.Log); err != nil {
		return nil, err
	}
	_, pluginErr := llama.LoadBackends(llama.LibDir()) // matters only if the CPU's is missing too
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
	s.info.Architecture = s.model.Info().Architecture
	if err := s.loadTemplate(cfg); err != nil {
		return nil, err
	}
	if err := s.makeAgent(cfg); err != nil {
		return nil, err
	}
	return &Prompts{s}, nil
}

// Of renders the prompt of an input. Its grammar has no marks (see agent.PlainGrammar). An input
// that needs no model is an error with the reason.
func (p *Prompts) Of(ctx context.Context, in protocol.AgentInput) (*agent.Prompt, error) {
	prompt, err := p.service.agent.Prompt(ctx, &in)
	if err != nil {
		return nil, err
	}
	prompt.Grammar = agent.PlainGrammar(prompt.Grammar)
	return prompt, nil
}

// Close frees the vocabulary. Call it after the last Of has returned.
func (p *Prompts) Close() error { return p.service.Close() }
