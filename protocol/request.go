package protocol

import "fmt"

// Types of instructions.
const (
	InstructionUser = "user" // said by a person
	InstructionEnv  = "env"  // reported by the environment
)

// AgentRequest is the body of POST /v1/responses: a batch of inputs.
type AgentRequest struct {
	RequestID string       `wire:"request_id,required,nonempty"`
	Inputs    []AgentInput `wire:"inputs,required,least=1,most=MaxInputs,unique=input"`
}

// AgentInput asks for candidates of one decision.
type AgentInput struct {
	ID          int64            `wire:"id,required"` // unique within the request; it does not identify a conversation
	Instruction AgentInstruction `wire:"instruction,required"`
	Tools       []Raw            `wire:"tools"`
	Attributes  Raw              `wire:"attributes"`
	Memory      Raw              `wire:"memory"`                                 // an agent's state, which only agents read
	NumOutputs  int              `wire:"num_outputs,least=1,most=MaxNumOutputs"` // 0 counts as 1, the default
	ExtraKeys   Raw              `wire:"extra_keys"`                             // a correction is its member "coaching"
}

func (in *AgentInput) setDefaults() { in.NumOutputs = 1 }

// AgentInstruction is the message that the agent responds to.
type AgentInstruction struct {
	Type    string `wire:"type,required,oneof=user|env"`
	Content string `wire:"content,required"`
}

var emptyObject = Raw("{}")[:2:2] // the default of raw objects. Appending never writes to it.

// DecodeAgentRequest decodes the body of POST /v1/responses. The error is [Problems].
func DecodeAgentRequest(body []byte) (*AgentRequest, error) {
	return decode[AgentRequest](body, MaxDepth)
}

// check bounds the number of candidates and the bytes that they return. It runs after all fields are decoded.
func (r *AgentRequest) check(problem report, _ presence) {
	candidates := r.Candidates()
	repeated := candidates * len(String(r.RequestID))
	for i := range r.Inputs {
		repeated += r.Inputs[i].NumOutputs * r.Inputs[i].size()
	}
	switch {
	case candidates > MaxCandidates:
		problem(TypeValue, fmt.Sprintf("asks for %d candidates; the num_outputs of one request may sum up to at most %d", candidates, MaxCandidates), "inputs")
	case repeated > MaxRepeated:
		problem(TypeValue, fmt.Sprintf("has %d bytes of instructions, memory, tools, attributes, corrections and request_id, counted once for each candidate, which returns them; at most %d are allowed in one request: send fewer candidates or inputs, or a shorter request_id", repeated, MaxRepeated), "inputs")
	}
}

// size is the number of bytes of an input that each of its candidates returns.
func (in *AgentInput) size() int {
	correction, _ := Get(in.ExtraKeys, "coaching")
	n := len(in.Instruction.Content) + len(in.Memory) + len(in.Attributes) + len(correction)
	for _, tool := range in.Tools {
		n += len(tool)
	}
	return n
}

// Candidates returns the number of requested candidates, which is the length of the response.
func (r *AgentRequest) Candidates() int {
	n := 0
	for i := range r.Inputs {
		n += max(1, r.Inputs[i].NumOutputs)
	}
	return n
}
