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
	SourceID       int64          `wire:"source_id,required"`           // the id of the input that it answers
	CandidateIndex int            `wire:"candidate_index,required,least=0"`
	Status         string         `wire:"status,required,oneof=completed|error"`
	Memory         Raw            `wire:"memory,required"` // the complete replacement of the input's memory
	InternalSteps  []Raw          `wire:"internal_steps,always"`
	Output         *AgentDecision `wire:"output,nullable"` // exactly when completed
	Error          *AgentError    `wire:"error,nullable"`  // exactly when error
}

// AgentOutputs is the response of POST /v1/responses.
type AgentOutputs []AgentOutput

// AgentDecision is a reply or tool calls, never both. Neither is valid too.
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

// DecodeAgentDecision decodes a decision by itself.
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

// WriteResponse writes the response of POST /v1/responses. Large raw values are written from where
// they lie, so the whole response is never in memory. The error is w's.
func WriteResponse(w io.Writer, outs []AgentOutput) error {
	out := sink{to: w}
	out.value(&outs)
	out.flush()
	return out.err
}

// StreamedCandidate is a line of the response of POST /v1/responses as NDJSON.
type StreamedCandidate struct {
	InputIndex     int          `wire:"input_index,required,least=0"` // in inputs
	CandidateIndex int          `wire:"candidate_index,required,least=0"`
	Candidate      *AgentOutput `wire:"candidate,required"`
}

// StreamEnd is its last line.
type StreamEnd struct {
	Candidates int `wire:"candidates,required,least=1"` // lines before
}

// WriteLine writes a [StreamedCandidate] or [StreamEnd] as WriteResponse does, and a line end.
func WriteLine(w io.Writer, line any) error {
	out := sink{to: w}
	out.value(line)
	out.dst = append(out.dst, '\n')
	out.flush()
	return out.err
}

// ResponseBytes is about how many bytes the response of POST /v1/responses has, and how many its candidates hold in
// memory: what neighbors share counts once there.
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
