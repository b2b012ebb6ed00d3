package workload

import (
	"errors"
	"fmt"

	"agentd/protocol"
)

// Options of a generated trace. The same options give the same trace on every
// machine. A trace with more turns begins like one with fewer. Lengths are in words,
// since tokens depend on the model.
type Options struct {
	Kind string `json:"kind"` // Synthetic or Household
	Seed uint64 `json:"seed"`
	// Agents ask at the same time, Turns each.
	Agents int `json:"agents"`
	Turns  int `json:"turns"`
	// Candidates of every turn.
	Candidates int `json:"candidates"`
	// Groups divide the agents evenly. Agents of a group share rules and tools, so their
	// prompts share a prefix. A household's group is a house. Prompts of different
	// groups share only the format's own prefix.
	Groups int `json:"groups"`

	// The rest is for Synthetic only.

	// Tools of an agent, at most MaxTools. Without tools past decisions are replies.
	Tools int `json:"tools"`
	// SystemWords are the words of the rules, memory.memory_list.
	SystemWords int `json:"system_words"`
	// ObservationWords are the words of each instruction: a person's in the first turn,
	// the environment's in later turns.
	ObservationWords int `json:"observation_words"`
	// OutputWords are the words of each decision in the history: a call's argument
	// values, or a reply.
	OutputWords int `json:"output_words"`
}

// MaxTools is the number of different tools.
var MaxTools = len(toolTable)

// Defaults are the default options of a kind. They fit the default model's context.
func Defaults(kind string) Options {
	o := Options{Kind: kind, Seed: 1, Agents: 16, Turns: 6, Candidates: 4, Groups: 4}
	if kind == Synthetic {
		o.Tools, o.SystemWords, o.ObservationWords, o.OutputWords = 6, 100, 25, 16
	}
	return o
}

// Validate reports every field that is wrong, by its name in JSON.
func (o *Options) Validate() error {
	var errs []error
	bad := func(msg string, args ...any) { errs = append(errs, fmt.Errorf(msg, args...)) }
	within := func(name string, value, from, to int) {
		if value < from || value > to {
			bad("%s is %d; it must be from %d to %d", name, value, from, to)
		}
	}
	within("agents", o.Agents, 1, maxAgents)
	within("turns", o.Turns, 1, maxTurns)
	if o.Agents > 0 && o.Turns > maxLines/o.Agents {
		bad("agents times turns is %d; it must be at most %d", o.Agents*o.Turns, maxLines)
	}
	within("candidates", o.Candidates, 1, protocol.MaxNumOutputs)
	within("groups", o.Groups, 1, max(1, o.Agents))
	switch o.Kind {
	case Household:
		if o.Tools != 0 || o.SystemWords != 0 || o.ObservationWords != 0 || o.OutputWords != 0 {
			bad("tools and words are for the kind %s; leave them out", Synthetic)
		}
	case Synthetic:
		within("tools", o.Tools, 0, MaxTools)
		within("system_words", o.SystemWords, 0, maxWords)
		within("observation_words", o.ObservationWords, 1, maxWords)
		within("output_words", o.OutputWords, maxParameters+1, maxWords)
		if o.Groups > 1 && o.Tools == 0 && o.SystemWords == 0 {
			bad("groups is %d; without tools and system_words all groups are alike: set one of them, or groups to 1", o.Groups)
		}
	default:
		bad("kind is %q; it must be %s or %s", o.Kind, Synthetic, Household)
	}
	return errors.Join(errs...)
}
