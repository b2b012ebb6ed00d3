package workload

import (
	"errors"
	"fmt"
	"time"

	"agentd/protocol"
)

// Options of a generated trace. The same options give the same trace, whatever
// the machine; more turns or agents begin as fewer do. Lengths are in words, since
// tokens depend on the model: package render reports these.
type Options struct {
	Kind string `json:"kind"` // Synthetic or Household
	Seed uint64 `json:"seed"`
	// Agents ask at the same time, Turns each.
	Agents int `json:"agents"`
	Turns  int `json:"turns"`
	// Candidates of every turn.
	Candidates int `json:"candidates"`
	// Groups are what agents are divided into evenly. The agents of a group have the
	// same rules and tools, so that their prompts begin alike; a household's group is a
	// house. Nothing but the agent's own words is the same between groups.
	Groups int `json:"groups"`
	// Think is the mean of the pauses between an agent's turns in a closed loop. They
	// vary evenly by half of it, so that the agents don't stay in step. The first turn
	// has none.
	Think Millis `json:"think_ms"`

	// What follows is for Synthetic alone: a household has its own.

	// Tools of an agent, at most MaxTools. Without tools past decisions are replies.
	Tools int `json:"tools"`
	// SystemWords are the words of the rules, memory.memory_list.
	SystemWords int `json:"system_words"`
	// ObservationWords are the words of each instruction: what a person says in the
	// first turn and what the environment reports in the later ones.
	ObservationWords int `json:"observation_words"`
	// OutputWords are the words of each decision that the history has: the values of
	// a call's arguments, or the text of a reply.
	OutputWords int `json:"output_words"`
}

// MaxTools is the number of different tools that there are.
var MaxTools = len(toolTable) * (len(effectors) + 1)

// Defaults are the options of a kind where nobody chose: a load that also fits the
// default model's context. An unknown kind has those that all kinds have.
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
	if o.Think < 0 || o.Think > Millis(maxThink) {
		bad("think_ms is %g; it must be from 0 to %d", float64(o.Think)/float64(time.Millisecond), maxThink.Milliseconds())
	}
	switch o.Kind {
	case Household:
		none := func(name string, value int) {
			if value != 0 {
				bad("%s is %d; leave it out: it is for the kind %s, a household has its own", name, value, Synthetic)
			}
		}
		none("tools", o.Tools)
		none("system_words", o.SystemWords)
		none("observation_words", o.ObservationWords)
		none("output_words", o.OutputWords)
	case Synthetic:
		within("tools", o.Tools, 0, MaxTools)
		within("system_words", o.SystemWords, 0, maxWords)
		within("observation_words", o.ObservationWords, 1, maxWords)
		least := 1
		if o.Tools > 0 {
			least = maxParameters + 1
		}
		within("output_words", o.OutputWords, least, maxWords)
		if o.Groups > 1 && o.Tools == 0 && o.SystemWords == 0 {
			bad("groups is %d; without tools and system_words there is nothing to tell groups apart: set one of them, or groups to 1", o.Groups)
		}
	default:
		bad("kind is %q; it must be %s or %s", o.Kind, Synthetic, Household)
	}
	return errors.Join(errs...)
}
