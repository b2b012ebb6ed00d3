package load

import (
	"context"
	"errors"
	"fmt"

	"agentd/agent"
	"agentd/llama"
	"agentd/protocol"
)

// OpenPrompts loads the vocabulary and the chat template of the model at cfg.Path, which is required, without
// weights. The Model can render prompts and has no engine.
func OpenPrompts(ctx context.Context, cfg Config) (m *Model, err error) {
	if err := llama.Init(cfg.Log); err != nil {
		return nil, err
	}
	if m, err = openVocabulary(ctx, cfg, cfg.Path); err != nil {
		return nil, err
	}
	m.Info.ModelInfo = m.Llama.Info()
	if err := m.makeAgent(cfg); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// openVocabulary loads the vocabulary and the chat template of the GGUF file at path.
func openVocabulary(ctx context.Context, cfg Config, path string) (*Model, error) {
	_, pluginErr := llama.LoadBackends(llama.LibDir()) // matters only if the CPU's is missing too
	v, err := llama.New(path, llama.SetCancel(ctx), llama.SetVocabOnly(true), llama.SetDevices("cpu"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the vocabulary of %s could not be loaded: %w; check that it is a complete GGUF file", cfg.Path, err), pluginErr)
	}
	m := &Model{Llama: v, copies: []*llama.Model{v}}
	if err := m.loadTemplate(cfg); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Prompt renders the prompt of an input. Its grammar has no marks, see agent.PlainGrammar. The error of an input
// that needs no model says why. It is safe for concurrent use.
func (m *Model) Prompt(ctx context.Context, in protocol.AgentInput) (*agent.Prompt, error) {
	prompt, err := m.Agent.Prompt(ctx, &in)
	if err != nil {
		return nil, err
	}
	prompt.Grammar = agent.PlainGrammar(prompt.Grammar)
	return prompt, nil
}
