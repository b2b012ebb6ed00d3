// Program tasks gives a trainer in any language tasks of the simulated household, and rewards of decisions.
// Each line of standard input is an order, which one line of standard output answers:
//
//	{"seed": 7}                        {"input": {"instruction": …, "tools": …}}
//	{"seed": 7, "decisions": [{…}]}    {"rewards": [0.5]}
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"agentd/agent"
	"agentd/household"
	"agentd/household/dataset"
	"agentd/protocol"
)

type order struct {
	Seed      uint64            `json:"seed"` // of the task
	Decisions []json.RawMessage `json:"decisions"`
}

type answer struct {
	Input   *protocol.AgentInput `json:"input,omitempty"`
	Rewards []float64            `json:"rewards,omitempty"`
}

// longest is the most decisions before that of a task: it bounds the prompt.
const longest = 2

func main() {
	eval := flag.Bool("eval", false, "houses, words and wordings that no training has")
	flag.Parse()
	options := household.Options{Busy: true}
	if *eval {
		options.Split = household.Eval
	}
	if err := serve(context.Background(), options, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tasks:", err)
		os.Exit(1)
	}
}

// serve answers orders until stdin ends.
func serve(ctx context.Context, options household.Options, stdin io.Reader, stdout io.Writer) error {
	agent, err := dataset.NewAgent()
	if err != nil {
		return err
	}
	found := map[uint64]*household.Episode{}
	orders, answers := json.NewDecoder(stdin), json.NewEncoder(stdout)
	orders.DisallowUnknownFields()
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf(`standard input: want {"seed": N}, or with "decisions": %w`, err)
		}
		if found[o.Seed] == nil {
			if found[o.Seed], err = find(ctx, o.Seed, options, memory{agent}); err != nil {
				return err
			}
		}
		a, err := o.answer(found[o.Seed])
		if err == nil {
			err = answers.Encode(a)
		}
		if err != nil {
			return err
		}
	}
}

// answer has the input of a task without decisions, else their rewards.
func (o *order) answer(task *household.Episode) (a answer, err error) {
	if o.Decisions == nil {
		in := task.Input()
		a.Input = &in
	}
	for i, raw := range o.Decisions {
		d, err := protocol.DecodeAgentDecision(raw)
		if err != nil {
			return a, fmt.Errorf("standard input: decisions[%d]: %w", i, err)
		}
		a.Rewards = append(a.Rewards, task.Reward(*d))
	}
	return a, nil
}

// memory has the agent's memory of decisions that it is given. It generates nothing.
type memory struct{ *agent.Agent }

func (m memory) Responses(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	plan, err := m.Prepare(req, nil)
	if err != nil {
		return nil, err
	}
	return m.Run(ctx, plan, nil)
}

// find follows the planner until several robots have something to do, but not all: what the default model does badly.
func find(ctx context.Context, seed uint64, o household.Options, m memory) (*household.Episode, error) {
	for r := rand.New(rand.NewPCG(seed, 0x7461736b73)); ; {
		for e := household.New(r.Uint64(), o); e.Score().Decisions <= longest && !e.Done(); {
			calls := len(e.Expected().ToolCalls)
			if e.Score().Decisions > 0 && calls > 1 && calls < len(e.Robots()) {
				return e, nil
			}
			after, err := e.Correct(ctx, m)
			if err != nil {
				return nil, err
			}
			e.Apply(e.Expected(), after)
		}
	}
}
