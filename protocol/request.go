package protocol

import (
	"fmt"
	"strconv"
)

// Types of instructions.
const (
	InstructionUser = "user" // said by a person
	InstructionEnv  = "env"  // reported by the environment
)

// AgentRequest is the body of POST /v1/responses: a batch of inputs.
type AgentRequest struct {
	RequestID string       // nonempty
	Inputs    []AgentInput // 1 to MaxInputs, with unique ids
}

// AgentInput asks for candidates of one decision.
type AgentInput struct {
	ID          int64 // unique within the request; no conversation identifier
	Instruction AgentInstruction
	Tools       []Raw // objects
	Attributes  Raw   // an object, {} when absent
	Memory      Raw   // an object that the agent owns, {} when absent
	NumOutputs  int   // 1 to MaxNumOutputs, 1 when absent
	ExtraKeys   Raw   // an object, {} when absent; corrections are under "coaching"
}

// AgentInstruction is the message that the agent responds to.
type AgentInstruction struct {
	Type    string // InstructionUser or InstructionEnv
	Content string
}

var (
	agentRequestFields = fields{required("request_id"), required("inputs")}

	agentInputFields = fields{
		required("id"), required("instruction"), optional("tools"), optional("attributes"),
		optional("memory"), optional("num_outputs"), optional("extra_keys"),
	}

	agentInstructionFields = fields{required("type"), required("content")}
)

// emptyObject is the default of raw objects. Its capacity equals its length, so appending never
// writes to it.
var emptyObject = Raw("{}")[:2:2]

// DecodeAgentRequest decodes the body of POST /v1/responses. The error is
// [Problems] with every problem of the body.
func DecodeAgentRequest(body []byte) (*AgentRequest, error) {
	return decode(body, (*decoder).agentRequest)
}

// DecodeAgentRequestWithin is DecodeAgentRequest for a server that bounds its memory. hold is asked
// for bytes before they are allocated. Its error ends the decoding and is returned. held is about
// what the request holds, the body included.
func DecodeAgentRequestWithin(body []byte, hold func(int64) error) (r *AgentRequest, held int, err error) {
	return decodeWithin(body, MaxDepth, hold, (*decoder).agentRequest)
}

func (d *decoder) agentRequest() *AgentRequest {
	r := new(AgentRequest)
	repeated := 0
	d.object(agentRequestFields, func(name string) {
		switch name {
		case "request_id":
			r.RequestID = d.nonempty()
		case "inputs":
			r.Inputs, repeated = d.agentInputs()
		}
	})
	// The fields may have any order, so this check must come last.
	repeated += r.Candidates() * len(appendString(nil, r.RequestID))
	if d.syntax == nil && r.Candidates() <= MaxCandidates && repeated > MaxRepeated {
		d.problem(TypeValue, fmt.Sprintf("has %d bytes of instructions, memory, tools, attributes, corrections and request_id, counted once for each candidate, which returns them; at most %d are allowed in one request: send fewer candidates or inputs, or a shorter request_id", repeated, MaxRepeated), "inputs")
	}
	return r
}

// agentInputs reads the inputs and checks the rules between them. repeated is the number of bytes
// that all candidates return from them.
func (d *decoder) agentInputs() (inputs []AgentInput, repeated int) {
	if d.kind() != '[' {
		d.mismatch(TypeList, "an array")
		return nil, 0
	}
	candidates := 0
	first := make(map[int64]int) // id to the index of the input that has it
	n := d.array(func(i int) {
		if i >= MaxInputs {
			d.skip()
			return
		}
		in, hasID := d.agentInput()
		if hasID {
			if j, taken := first[in.ID]; taken {
				d.problem(TypeValue, fmt.Sprintf("id %d is already the id of input %d; ids must be unique within a request", in.ID, j), "id")
			} else {
				first[in.ID] = i
			}
		}
		candidates += in.NumOutputs
		repeated += in.NumOutputs * in.size()
		inputs = append(inputs, in)
	})
	switch {
	case d.syntax != nil:
	case n == 0:
		d.problem(TypeTooShort, "must hold at least 1 input")
	case n > MaxInputs:
		d.problemf(TypeTooLong, "has %d inputs; at most %d are allowed in one request", n, MaxInputs)
	case candidates > MaxCandidates:
		d.problemf(TypeValue, "asks for %d candidates; the num_outputs of one request may sum up to at most %d", candidates, MaxCandidates)
	}
	return inputs, repeated
}

// size is the number of bytes that one candidate returns from an input.
func (in *AgentInput) size() int {
	correction, _ := Get(in.ExtraKeys, "coaching")
	n := len(in.Instruction.Content) + len(in.Memory) + len(in.Attributes) + len(correction)
	for _, tool := range in.Tools {
		n += len(tool)
	}
	return n
}

// agentInput reads one input. hasID: its id is a valid integer.
func (d *decoder) agentInput() (in AgentInput, hasID bool) {
	in = AgentInput{Attributes: emptyObject, Memory: emptyObject, NumOutputs: 1, ExtraKeys: emptyObject}
	d.take(structBytes)
	d.object(agentInputFields, func(name string) {
		switch name {
		case "id":
			in.ID, hasID = d.integer()
		case "instruction":
			in.Instruction = d.instruction()
		case "tools":
			in.Tools = d.rawObjects()
		case "attributes":
			in.Attributes = d.rawObject()
		case "memory":
			in.Memory = d.rawObject()
		case "num_outputs":
			in.NumOutputs = d.numOutputs()
		case "extra_keys":
			in.ExtraKeys = d.rawObject()
		}
	})
	return in, hasID
}

func (d *decoder) instruction() (ins AgentInstruction) {
	d.object(agentInstructionFields, func(name string) {
		switch name {
		case "type":
			ins.Type = d.literal(InstructionUser, InstructionEnv)
		case "content":
			ins.Content, _ = d.string()
		}
	})
	return ins
}

// numOutputs reads num_outputs; an invalid one counts as 1.
func (d *decoder) numOutputs() int {
	n, ok := d.integer()
	switch {
	case !ok:
	case n < 1:
		d.problemf(TypeGreaterEqual, "must be at least 1, not %d", n)
	case n > MaxNumOutputs:
		d.problemf(TypeLessEqual, "must be at most %d, not %d", MaxNumOutputs, n)
	default:
		return int(n)
	}
	return 1
}

// Candidates returns the number of requested candidates, which is the length of the response.
func (r *AgentRequest) Candidates() int {
	n := 0
	for i := range r.Inputs {
		n += r.Inputs[i].NumOutputs
	}
	return n
}

// AppendJSON appends the request.
func (r *AgentRequest) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"request_id":`...)
	dst = appendString(dst, r.RequestID)
	dst = append(dst, `,"inputs":`...)
	dst = appendList(dst, r.Inputs, func(in AgentInput, dst []byte) []byte { return in.AppendJSON(dst) })
	return append(dst, '}')
}

// AppendJSON appends the input.
func (in *AgentInput) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, in.ID, 10)
	dst = append(dst, `,"instruction":{"type":`...)
	dst = appendString(dst, in.Instruction.Type)
	dst = append(dst, `,"content":`...)
	dst = appendString(dst, in.Instruction.Content)
	dst = append(dst, '}')
	if len(in.Tools) > 0 {
		dst = append(dst, `,"tools":`...)
		dst = appendList(dst, in.Tools, appendObject)
	}
	dst = appendOptionalObject(dst, `,"attributes":`, in.Attributes)
	dst = appendOptionalObject(dst, `,"memory":`, in.Memory)
	if in.NumOutputs != 1 && in.NumOutputs != 0 {
		dst = append(dst, `,"num_outputs":`...)
		dst = strconv.AppendInt(dst, int64(in.NumOutputs), 10)
	}
	dst = appendOptionalObject(dst, `,"extra_keys":`, in.ExtraKeys)
	return append(dst, '}')
}
