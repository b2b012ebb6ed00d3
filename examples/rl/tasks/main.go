// Program tasks gives a trainer in any language tasks of the simulated household, and rewards of decisions.
// Each line of standard input is an order, which one line of standard output answers:
//
//	{"seed": 7}                             {"input": {"instruction": …, "tools": …}}
//	{"seed": 7, "decisions": [{…}]}         {"rewards": [0.5]}
//	{"seed": 7, "request": {…}}             {"prompt": "…", "grammar": "…", "seeds": [5, 6]}
//	{"seed": 7, "texts": ["<tool_call>…"]}  {"rewards": [0.5]}
//
// The last two are for clients that ask an engine for tokens. They have what agentd makes of the input: the prompt, the
// grammar of its answers and the seeds of its candidates.
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
	"agentd/scheduler/generation"
)

type order struct {
	Seed      uint64            `json:"seed"` // of the task
	Decisions []json.RawMessage `json:"decisions"`
	Texts     []string          `json:"texts"` // of completions, without the token that ended them
	Request   *request          `json:"request"`
}

// request says as which input of which request the task is sent. They decide its seeds.
type request struct {
	ID         string `json:"request_id"`
	Input      int64  `json:"input"`
	Candidates int    `json:"candidates"`
}

type answer struct {
	Input   *protocol.AgentInput `json:"input,omitempty"`
	Rewards []float64            `json:"rewards,omitempty"`
	Prompt  string               `json:"prompt,omitempty"`
	Grammar string               `json:"grammar,omitempty"` // GBNF
	Seeds   []uint32             `json:"seeds,omitempty"`   // of the candidates
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
	agent, err := dataset.NewAgent(agent.ConstrainOn)
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
		a, err := o.answer(ctx, found[o.Seed], agent)
		if err == nil {
			err = answers.Encode(a)
		}
		if err != nil {
			return err
		}
	}
}

// answer has the input of a task without decisions, else their rewards.
func (o *order) answer(ctx context.Context, task *household.Episode, agent *agent.Agent) (a answer, err error) {
	if o.Request != nil || o.Texts != nil {
		return o.generated(ctx, task, agent)
	}
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

// generated lets the agent make the request of an engine for a task, and decisions of the engine's texts.
func (o *order) generated(ctx context.Context, task *household.Episode, agent *agent.Agent) (a answer, err error) {
	in, req := task.Input(), protocol.AgentRequest{RequestID: "texts"}
	in.ExtraKeys, in.NumOutputs = nil, len(o.Texts)
	if r := o.Request; r != nil {
		req.RequestID, in.ID, in.NumOutputs = r.ID, r.Input, r.Candidates
	}
	if in.NumOutputs < 1 {
		return a, errors.New("standard input: request.candidates or texts: want at least 1")
	}
	req.Inputs = []protocol.AgentInput{in}
	plan, err := agent.Prepare(&req, nil)
	if err != nil {
		return a, err
	}
	e := &engine{texts: o.Texts}
	outputs, err := agent.Run(ctx, plan, e)
	if err != nil {
		return a, err
	}
	if o.Texts == nil {
		for _, p := range dataset.Pieces(e.asked.Prompt) {
			a.Prompt += p.Text
		}
		a.Grammar, a.Seeds = e.asked.Grammar, e.asked.Seeds
		return a, nil
	}
	for _, out := range outputs {
		reward := 0.0 // of an error
		if out.Output != nil {
			reward = task.Reward(*out.Output)
		}
		a.Rewards = append(a.Rewards, reward)
	}
	return a, nil
}

// engine answers with texts, and keeps what it was asked.
type engine struct {
	texts []string
	asked generation.Request
}

// GenerateAll implements [agent.Generator] for one request.
func (e *engine) GenerateAll(_ context.Context, requests []generation.Request, done func(int, *generation.Result, error)) {
	e.asked = requests[0]
	result := &generation.Result{Completions: make([]generation.Completion, e.asked.N)}
	for i, text := range e.texts {
		result.Completions[i] = generation.Completion{Text: text, Finish: generation.FinishStop}
	}
	done(0, result, nil)
}

// Keep implements [agent.Generator]. There is no queue.
func (e *engine) Keep(int) {}

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
