package protocol

import (
	"io"
	"unsafe"
)

// Statuses of a candidate.
const (
	StatusCompleted = "completed"
	StatusError     = "error"
)

// AgentOutput is one candidate: an element of the response.
type AgentOutput struct {
	RequestID      string         `wire:"request_id,required,nonempty"` // the request's
	SourceID       int64          `wire:"source_id,required"`           // the id of the answered input
	CandidateIndex int            `wire:"candidate_index,required,least=0"`
	Status         string         `wire:"status,required,oneof=completed|error"`
	Memory         Raw            `wire:"memory,required"` // replaces the input's memory as a whole
	InternalSteps  []Raw          `wire:"internal_steps,always"`
	Output         *AgentDecision `wire:"output,nullable"` // present exactly if completed
	Error          *AgentError    `wire:"error,nullable"`  // present exactly if error
}

// AgentOutputs is the response of POST /v1/responses.
type AgentOutputs []AgentOutput

// AgentDecision is a reply or tool calls, never both. An empty one is valid.
type AgentDecision struct {
	Say       string     `wire:"say,always"`
	ToolCalls []ToolCall `wire:"tool_calls,always"`
}

// ToolCall asks one robot to do something.
type ToolCall struct {
	Name            string `wire:"name,required,nonempty"`
	Arguments       Raw    `wire:"arguments,required"`
	TargetRobotName string `wire:"target_robot_name,required,nonempty"`
}

// AgentError is the reason why a candidate has no decision.
type AgentError struct {
	Code      string `wire:"code,required,nonempty"`
	Message   string `wire:"message,required,nonempty"`
	Component string `wire:"component,nullable"`
}

// DecodeAgentOutputs decodes the response of POST /v1/responses; [ValidateResponse] needs the request.
func DecodeAgentOutputs(body []byte) ([]AgentOutput, error) {
	outs, err := decode[[]AgentOutput](body, MaxResponseDepth)
	if err != nil {
		return nil, err
	}
	return *outs, nil
}

// DecodeAgentDecision decodes a decision outside of a response. The error is [Problems].
func DecodeAgentDecision(body []byte) (*AgentDecision, error) {
	return decode[AgentDecision](body, MaxDepth)
}

// report receives a problem at or below the validated value.
type report func(typ, msg string, below ...any)

func (o *AgentOutput) check(problem report, _ presence) {
	switch {
	case o.Status == StatusCompleted && o.Output == nil:
		problem(TypeValue, `a "completed" candidate requires an output`, "output")
	case o.Status == StatusError && o.Output != nil:
		problem(TypeValue, `an "error" candidate must not have an output`, "output")
	}
	switch {
	case o.Status == StatusCompleted && o.Error != nil:
		problem(TypeValue, `a "completed" candidate must not have an error`, "error")
	case o.Status == StatusError && o.Error == nil:
		problem(TypeValue, `an "error" candidate requires an error`, "error")
	}
}

func (a *AgentDecision) check(problem report, _ presence) {
	if a.Say != "" && len(a.ToolCalls) > 0 {
		problem(TypeValue, "say and tool_calls must not both be nonempty; send one of them")
	}
}

// WriteResponse writes the response of POST /v1/responses. Raw values of sinkDirect bytes or more are
// written without a copy, so memory never holds the whole response. The error is w's.
func WriteResponse(w io.Writer, outs []AgentOutput) error {
	out := sink{to: w}
	out.value(&outs)
	out.flush()
	return out.err
}

// StreamedCandidate is one line of the response of POST /v1/responses as NDJSON (one JSON value per line).
type StreamedCandidate struct {
	InputIndex     int          `wire:"input_index,required,least=0"` // index in the request's inputs
	CandidateIndex int          `wire:"candidate_index,required,least=0"`
	Candidate      *AgentOutput `wire:"candidate,required"`
}

// StreamEnd is the last line of a complete NDJSON response.
type StreamEnd struct {
	Candidates int `wire:"candidates,required,least=1"` // number of lines before this one
}

// WriteLine writes a [StreamedCandidate] or a [StreamEnd], and "\n". The error is w's.
func WriteLine(w io.Writer, line any) error {
	out := sink{to: w}
	out.value(line)
	out.dst = append(out.dst, '\n')
	out.flush()
	return out.err
}

// ResponseBytes estimates the bytes of the response of POST /v1/responses, and the bytes that its candidates hold in
// memory. There, raw values that a candidate shares with the one before it count once.
func ResponseBytes(outs []AgentOutput) (sent, held int) {
	sent = 2
	shared := func(a, b Raw) bool { return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b) }
	before := &AgentOutput{}
	for i := range outs {
		o := &outs[i]
		sent += len(o.Memory) + 512
		held += structBytes
		if !shared(o.Memory, before.Memory) {
			held += cap(o.Memory)
		}
		for k, step := range o.InternalSteps {
			sent += len(step) + 1
			if k >= len(before.InternalSteps) || !shared(step, before.InternalSteps[k]) {
				held += cap(step)
			}
		}
		before = o
	}
	return sent, held
}
