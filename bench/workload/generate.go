package workload

import (
	"fmt"
	"math/rand/v2"
	"time"

	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
)

// Streams keep the random numbers of different purposes apart.
const (
	streamGroup = iota << 32
	streamAgent
	streamThink
	streamHouse
)

// script is what one agent is asked, turn by turn.
type script interface {
	// input is what it is asked now: all but the id and the number of candidates.
	input() protocol.AgentInput
	// decide takes the scripted decision and goes on to the next turn.
	decide() error
}

// Generate makes a trace: the first turn of all agents, then the second one, and
// so on. Errors name the options that are wrong.
func Generate(o Options) (*Trace, error) {
	return generateWithin(o, protocol.MaxBodyBytes-inputSlack, maxInputs)
}

// generateWithin is Generate with bounds for the bytes of one input and of all.
func generateWithin(o Options, maxInput, maxInputs int) (*Trace, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	scripts := make([]script, o.Agents)
	thinks := make([]*rand.Rand, o.Agents)
	newGroup := newSynthetic
	if o.Kind == Household {
		newGroup = newHousehold
	}
	for g := range o.Groups {
		begin := newGroup(&o, g)
		for a := g; a < o.Agents; a += o.Groups {
			scripts[a] = begin(a)
			thinks[a] = rand.New(rand.NewPCG(o.Seed, streamThink+uint64(a)))
		}
	}
	t := &Trace{Header: Header{Version: Version, Kind: o.Kind, Options: &o}}
	size := 0
	for turn := range o.Turns {
		for a, s := range scripts {
			if turn > 0 {
				if err := s.decide(); err != nil {
					return nil, fmt.Errorf("turn %d of agent %d: %w", turn, a, err)
				}
			}
			in := s.input()
			in.ID, in.NumOutputs = int64(a), o.Candidates
			next := Turn{Agent: a, Turn: turn, Think: pause(thinks[a], o.Think, turn), Input: in.AppendJSON(nil), Candidates: o.Candidates}
			if len(next.Input) > maxInput {
				return nil, fmt.Errorf("the inputs have %d bytes at turn %d, more than a request may have: ask for fewer turns, tools or words", len(next.Input), turn)
			}
			if size += len(next.Input); size > maxInputs {
				return nil, fmt.Errorf("the trace has more than %d bytes at turn %d: ask for fewer agents, turns, tools or words", maxInputs, turn)
			}
			t.Turns = append(t.Turns, next)
		}
	}
	return t, nil
}

// pause before a turn: the mean, give or take half of it.
func pause(r *rand.Rand, mean Millis, turn int) Millis {
	if turn == 0 || mean == 0 {
		return 0
	}
	return Millis(time.Duration(float64(mean) * (0.5 + r.Float64())).Round(time.Microsecond))
}

// remember is the memory that the agent gives back when it answers an input with
// a decision.
func remember(in *protocol.AgentInput, d protocol.AgentDecision) (protocol.Raw, error) {
	m, problems := memory.Parse(in.Memory, "")
	if len(problems) > 0 {
		return nil, problems
	}
	var calls []tools.Call
	for _, c := range d.ToolCalls {
		calls = append(calls, tools.Call{Name: c.Name, Arguments: c.Arguments, Robot: c.TargetRobotName})
	}
	turn := m.Prepare(author(in.Instruction.Type), in.Instruction.Content)
	return turn.Decision(memory.AppendDecision(nil, d.Say, calls), memory.Change{}), nil
}

// author of an instruction, as the history names it.
func author(instruction string) memory.Author {
	if instruction == protocol.InstructionEnv {
		return memory.System
	}
	return memory.User
}
