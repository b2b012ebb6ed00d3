package workload

import (
	"fmt"
	"math/rand/v2"

	"agentd/agent/memory"
	"agentd/household"
	"agentd/protocol"
)

// streamHouse separates the random numbers of houses from others of the same seed.
const streamHouse = 3 << 32

// Generate makes a trace of conversations in the simulated household, as its planner
// leads them: the first turn of all agents, then the second, and so on.
func Generate(o Options) (*Trace, error) {
	return generateWithin(o, protocol.MaxBodyBytes-inputSlack, maxInputs)
}

// generateWithin is Generate with bounds for the bytes of one input and of all.
func generateWithin(o Options, maxInput, maxInputs int) (*Trace, error) {
	agents, groups := make([]*housemate, o.Agents), min(o.Groups, o.Agents)
	for g := range groups {
		begin := newHousehold(&o, g)
		for a := g; a < o.Agents; a += groups {
			agents[a] = begin(a)
		}
	}
	t := new(Trace)
	size := 0
	for turn := range o.Turns {
		for a, agent := range agents {
			if turn > 0 {
				if err := agent.decide(); err != nil {
					return nil, fmt.Errorf("turn %d of agent %d: %w", turn, a, err)
				}
			}
			in := agent.episode.Input()
			in.ExtraKeys = nil // the load generator chooses inference_mode
			in.ID, in.NumOutputs = int64(a), o.Candidates
			bytes := len(in.AppendJSON(nil))
			if bytes > maxInput {
				return nil, fmt.Errorf("the inputs have %d bytes at turn %d, more than a request may have: use fewer turns", bytes, turn)
			}
			if size += bytes; size > maxInputs {
				return nil, fmt.Errorf("the trace has more than %d bytes at turn %d: use fewer agents or turns", maxInputs, turn)
			}
			t.Turns = append(t.Turns, Turn{Agent: a, Turn: turn, Input: in, Candidates: o.Candidates})
		}
	}
	return t, nil
}

// newHousehold starts the agents of one house. Its words are the held-out ones that
// household eval uses, which the model never saw in training.
func newHousehold(o *Options, group int) func(agent int) *housemate {
	seed := rand.New(rand.NewPCG(o.Seed, streamHouse+uint64(group))).Uint64()
	house := household.NewGroup(seed, household.Options{Split: household.Eval})
	return func(agent int) *housemate {
		return &housemate{house: house, agents: o.Agents, next: agent + o.Agents, episode: house.Episode(agent)}
	}
}

// housemate scripts an agent that decides as the planner does. After a conversation
// it starts another one in the same house, with an empty memory.
type housemate struct {
	house   *household.Group
	agents  int // in all houses
	next    int // index of the next conversation, unique among agents
	episode *household.Episode
}

func (h *housemate) decide() error {
	in, right := h.episode.Input(), h.episode.Expected()
	m, problems := memory.Parse(in.Memory, "")
	if len(problems) > 0 {
		return problems
	}
	turn := m.Prepare(memory.AuthorOf(in.Instruction.Type), in.Instruction.Content)
	if h.episode.Apply(right, turn.Decision(memory.WriteDecision(right.Say, right.ToolCalls, false), memory.Change{})) {
		h.episode = h.house.Episode(h.next)
		h.next += h.agents
	}
	return nil
}
