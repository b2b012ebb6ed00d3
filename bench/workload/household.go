package workload

import (
	"math/rand/v2"

	"agentd/household"
	"agentd/protocol"
)

// newHousehold starts the agents of one house. Its words are the held-out ones that
// household eval uses, which the model never saw in training.
func newHousehold(o *Options, group int) func(agent int) script {
	seed := rand.New(rand.NewPCG(o.Seed, streamHouse+uint64(group))).Uint64()
	house := household.NewGroup(seed, household.Options{Split: household.Eval})
	return func(agent int) script {
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

func (h *housemate) input() protocol.AgentInput {
	in := h.episode.Input()
	in.ExtraKeys = nil // the load generator chooses inference_mode
	return in
}

func (h *housemate) decide() error {
	in, right := h.episode.Input(), h.episode.Expected()
	memory, err := remember(&in, right)
	if err != nil {
		return err
	}
	if h.episode.Apply(right, memory) {
		h.episode = h.house.Episode(h.next)
		h.next += h.agents
	}
	return nil
}
