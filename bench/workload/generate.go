package workload

import (
	"fmt"

	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
)

// Streams separate the random numbers of different uses.
const (
	streamGroup = iota << 32
	streamAgent
	_
	streamHouse
)

// script produces one agent's inputs.
type script interface {
	// input is the input of the current turn without id and num_outputs.
	input() protocol.AgentInput
	// decide applies the scripted decision and moves to the next turn.
	decide() error
}

// Generate makes a trace: the first turn of all agents, then the second, and so on.
// Errors name the wrong options.
func Generate(o Options) (*Trace, error) {
	return generateWithin(o, protocol.MaxBodyBytes-inputSlack, maxInputs)
}

// generateWithin is Generate with bounds for the bytes of one input and of all.
func generateWithin(o Options, maxInput, maxInputs int) (*Trace, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	scripts := make([]script, o.Agents)
	newGroup := newSynthetic
	if o.Kind == Household {
		newGroup = newHousehold
	}
	for g := range o.Groups {
		begin := newGroup(&o, g)
		for a := g; a < o.Agents; a += o.Groups {
			scripts[a] = begin(a)
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
			next := Turn{Agent: a, Turn: turn, Input: in.AppendJSON(nil), Candidates: o.Candidates}
			if len(next.Input) > maxInput {
				return nil, fmt.Errorf("the inputs have %d bytes at turn %d, more than a request may have: use fewer turns, tools or words", len(next.Input), turn)
			}
			if size += len(next.Input); size > maxInputs {
				return nil, fmt.Errorf("the trace has more than %d bytes at turn %d: use fewer agents, turns, tools or words", maxInputs, turn)
			}
			t.Turns = append(t.Turns, next)
		}
	}
	return t, nil
}

// remember is the memory that the agent returns with a decision.
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
