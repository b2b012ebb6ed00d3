package main

import (
	"context"
	"fmt"

	"agentd/bench/workload"
	"agentd/cmd/internal/options"
	"agentd/protocol"
)

var inTrace = options.In("Trace")

// source says which trace is generated, and the model that renders it.
type source struct {
	Generate workload.Options
	Model    string // "": not rendered; builtin: the model inside agentd
}

// builtin is the word for the model inside agentd.
const builtin = "default"

// options of the trace.
func (s *source) options() []options.Option {
	g := &s.Generate
	return []options.Option{
		inTrace("model", "FILE", "GGUF file whose vocabulary and template render the prompts, or default for the model inside agentd. llama-server and vllm need it.", options.Text(&s.Model)),
		inTrace("trace-seed", "N", "Seed of the trace: the same number gives the same trace.", options.Uint64(&g.Seed)),
		inTrace("agents", "N", "Agents that ask at the same time.", options.Int(&g.Agents, 1, workload.MaxAgents)),
		inTrace("turns", "N", "Turns of each agent. Its history grows with every turn.", options.Int(&g.Turns, 1, workload.MaxTurns)),
		inTrace("candidates", "N", "Candidates of each turn, its num_outputs.", options.Int(&g.Candidates, 1, protocol.MaxNumOutputs)),
		inTrace("groups", "N", "Groups of agents. Agents of a group share house and tools, and so a prompt prefix. More groups than agents are as many.", options.Int(&g.Groups, 1, workload.MaxAgents)),
	}
}

// load generates the trace, and renders it if a model is named.
func (s *source) load(ctx context.Context) (*workload.Trace, error) {
	trace, err := workload.Generate(s.Generate)
	if err != nil || s.Model == "" {
		return trace, err
	}
	path := s.Model
	if path == builtin {
		path = ""
	}
	if err := workload.Render(ctx, trace, path); err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	return trace, nil
}
