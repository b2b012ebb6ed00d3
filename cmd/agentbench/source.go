package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"agentd/bench/workload"
	"agentd/internal/options"
)

var inTrace = options.In("Trace")

// source says which trace is generated, and the model that renders it.
type source struct {
	Generate workload.Options
	Model    string // "": not rendered; builtin: the model inside agentd
}

// builtin is the word for the model inside agentd.
const builtin = "default"

func newSource() source { return source{Generate: workload.Defaults()} }

// options of the trace. The generator checks their bounds.
func (s *source) options() []options.Option {
	g := &s.Generate
	number := func(p *int) options.Value { return options.Int(p, 0, math.MaxInt32) }
	return []options.Option{
		inTrace("model", "FILE", "GGUF file whose vocabulary and template render the prompts, or default for the model inside agentd. llama-server and vllm need it.", options.Text(&s.Model)),
		inTrace("trace-seed", "N", "Seed of the trace: the same number gives the same trace.", options.Uint64(&g.Seed)),
		inTrace("agents", "N", "Agents that ask at the same time.", number(&g.Agents)),
		inTrace("turns", "N", "Turns of each agent. Its history grows with every turn.", number(&g.Turns)),
		inTrace("candidates", "N", "Candidates of each turn, its num_outputs.", number(&g.Candidates)),
		inTrace("groups", "N", "Groups of agents. Agents of a group share house and tools, and so a prompt prefix. Unset, it is at most the number of agents.", number(&g.Groups)),
	}
}

// check checks the options against each other.
func (s *source) check(given options.Origins) error {
	if given["groups"] == "" {
		s.Generate.Groups = max(1, min(s.Generate.Groups, s.Generate.Agents))
	}
	return flagged(s.Generate.Validate())
}

// flagged replaces the field names in the generator's errors by flags.
func flagged(err error) error {
	var all interface{ Unwrap() []error }
	if err == nil || !errors.As(err, &all) {
		return err
	}
	var list []error
	for _, e := range all.Unwrap() {
		name, rest, _ := strings.Cut(e.Error(), " ")
		list = append(list, fmt.Errorf("--%s: %s", strings.ReplaceAll(name, "_", "-"), rest))
	}
	return errors.Join(list...)
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
