package workload

import (
	"math/rand/v2"

	"agentd/defaultmodel/household"
	"agentd/protocol"
)

// newHousehold begins the agents of one house. Its words and wordings are those
// that no training has, as agentd eval asks.
func newHousehold(o *Options, group int) func(agent int) script {
	seed := rand.New(rand.NewPCG(o.Seed, streamHouse+uint64(group))).Uint64()
	house := household.NewGroup(seed, household.Options{Split: household.Eval})
	return func(agent int) script {
		return &housemate{house: house, agents: o.Agents, next: agent + o.Agents, episode: house.Episode(agent)}
	}
}

// housemate is the script of an agent that decides as the planner does. When a
// conversation is over, it begins another one in the same house, with a memory that
// knows nothing of the last one.
type housemate struct {
	house   *household.Group
	agents  int // in all houses
	next    int // index of the conversation after this one, which no other agent has
	episode *household.Episode
}

func (h *housemate) input() protocol.AgentInput {
	in := h.episode.Input()
	in.ExtraKeys = nil // who sends it chooses between sampling and inference_mode
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
