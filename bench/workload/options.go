package workload

import (
	"errors"
	"fmt"

	"agentd/protocol"
)

// Options of a generated trace. The same options give the same trace on every
// machine. A trace with more turns begins like one with fewer.
type Options struct {
	Seed uint64 `json:"seed"`
	// Agents ask at the same time, Turns each.
	Agents int `json:"agents"`
	Turns  int `json:"turns"`
	// Candidates of every turn.
	Candidates int `json:"candidates"`
	// Groups divide the agents evenly. Agents of a group are in one house with the same
	// tools, so their prompts share a prefix.
	Groups int `json:"groups"`
}

// Defaults are the default options. They fit the default model's context.
func Defaults() Options { return Options{Seed: 1, Agents: 16, Turns: 6, Candidates: 4, Groups: 4} }

// Validate reports every field that is wrong, by its name in JSON.
func (o *Options) Validate() error {
	var errs []error
	within := func(name string, value, from, to int) {
		if value < from || value > to {
			errs = append(errs, fmt.Errorf("%s is %d; it must be from %d to %d", name, value, from, to))
		}
	}
	within("agents", o.Agents, 1, maxAgents)
	within("turns", o.Turns, 1, maxTurns)
	if o.Agents > 0 && o.Turns > maxLines/o.Agents {
		errs = append(errs, fmt.Errorf("agents times turns is %d; it must be at most %d", o.Agents*o.Turns, maxLines))
	}
	within("candidates", o.Candidates, 1, protocol.MaxNumOutputs)
	within("groups", o.Groups, 1, max(1, o.Agents))
	return errors.Join(errs...)
}
