package workload

import (
	"fmt"
	"math/rand/v2"

	"agentd/household"
	"agentd/protocol"
)

// crew holds what the agents of a group share.
type crew struct {
	tools      []tool
	raw        []protocol.Raw
	robots     []string
	attributes protocol.Raw
	memory     protocol.Raw // before the first turn
}

// Syllables of a site's name. The group's number makes the name unique.
var (
	heads = []string{"Ash", "Birch", "Clay", "Dun", "Elm", "Fen", "Glen", "Hart", "Iron", "Kirk", "Lang", "Mill", "North", "Oak", "Stone", "West"}
	tails = []string{"field", "ford", "gate", "ham", "moor", "port", "ton", "wick"}
)

// robotsOfCrew is the number of robots of an agent.
const robotsOfCrew = 2

// newSynthetic starts the agents of a group.
func newSynthetic(o *Options, group int) func(agent int) script {
	r := rand.New(rand.NewPCG(o.Seed, streamGroup+uint64(group)))
	site := fmt.Sprintf("%s%s%d", heads[r.IntN(len(heads))], tails[r.IntN(len(tails))], group+1)
	c := &crew{memory: protocol.Raw("{}")}
	for i := range robotsOfCrew {
		c.robots = append(c.robots, fmt.Sprintf("%s_robot_%d", site, i+1))
	}
	c.attributes = protocol.AppendMember(nil, "known_robots", protocol.AppendElements(nil, quoted(c.robots)...))
	if rules := sentences(text(r, o.SystemWords, site)); len(rules) > 0 {
		c.memory = protocol.AppendMember(nil, "memory_list", protocol.AppendElements(nil, quoted(rules)...))
	}
	c.tools = newTools(r, o.Tools, site)
	for i := range c.tools {
		c.raw = append(c.raw, c.tools[i].raw())
	}
	return func(agent int) script {
		s := &synthetic{options: o, crew: c, rand: rand.New(rand.NewPCG(o.Seed, streamAgent+uint64(agent))), memory: c.memory}
		s.ask(protocol.InstructionUser)
		return s
	}
}

// synthetic scripts an agent with random observations and decisions.
type synthetic struct {
	options     *Options
	crew        *crew
	rand        *rand.Rand
	memory      protocol.Raw
	instruction protocol.AgentInstruction
}

func (s *synthetic) ask(kind string) {
	s.instruction = protocol.AgentInstruction{Type: kind, Content: text(s.rand, s.options.ObservationWords, "")}
}

func (s *synthetic) input() protocol.AgentInput {
	return protocol.AgentInput{Instruction: s.instruction, Tools: s.crew.raw, Attributes: s.crew.attributes, Memory: s.memory}
}

func (s *synthetic) decide() (err error) {
	in := s.input()
	s.memory, err = remember(&in, s.decision())
	s.ask(protocol.InstructionEnv)
	return err
}

// decision is a call of one of the tools, or a reply where there are none.
func (s *synthetic) decision() protocol.AgentDecision {
	if len(s.crew.tools) == 0 {
		return protocol.AgentDecision{Say: text(s.rand, s.options.OutputWords, "")}
	}
	t := &s.crew.tools[s.rand.IntN(len(s.crew.tools))]
	return protocol.AgentDecision{ToolCalls: []protocol.ToolCall{{
		Name: t.name, Arguments: t.arguments(s.rand, s.options.OutputWords),
		TargetRobotName: s.crew.robots[s.rand.IntN(len(s.crew.robots))],
	}}}
}

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
