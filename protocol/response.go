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

// AgentOutput is one candidate: an element of the response of POST
// /v1/responses.
type AgentOutput struct {
	RequestID      string         // the request's
	SourceID       int64          // the id of the input that it answers
	CandidateIndex int            // from 0 for each input
	Status         string         // StatusCompleted or StatusError
	Memory         Raw            // an object, the complete replacement of the input's memory
	InternalSteps  []Raw          // objects
	Output         *AgentDecision // exactly when completed
	Error          *AgentError    // exactly when error
}

// AgentDecision is a reply or tool calls, never both. Neither is valid too.
type AgentDecision struct {
	Say       string
	ToolCalls []ToolCall
}

// ToolCall asks one robot to do something.
type ToolCall struct {
	Name            string // nonempty
	Arguments       Raw    // an object
	TargetRobotName string // nonempty
}

// AgentError is the reason why a candidate has no decision.
type AgentError struct {
	Code      string // nonempty
	Message   string // nonempty
	Component string // "" when absent
}

var (
	agentOutputFields = fields{
		required("request_id"), required("source_id"), required("candidate_index"), required("status"),
		required("memory"), optional("internal_steps"), nullable("output"), nullable("error"),
	}

	agentDecisionFields = fields{optional("say"), optional("tool_calls")}

	toolCallFields = fields{required("name"), required("arguments"), required("target_robot_name")}

	agentErrorFields = fields{required("code"), required("message"), nullable("component")}
)

// DecodeAgentOutputs decodes the response of POST /v1/responses and checks the
// rules of each candidate; [ValidateResponse] checks them against the request.
func DecodeAgentOutputs(body []byte) ([]AgentOutput, error) {
	return decodeDepth(body, MaxResponseDepth, func(d *decoder) (outs []AgentOutput) {
		d.array(func(int) { outs = append(outs, d.agentOutput()) })
		return outs
	})
}

func (d *decoder) agentOutput() (o AgentOutput) {
	o.Memory = emptyObject
	seen := d.object(agentOutputFields, func(name string) {
		switch name {
		case "request_id":
			o.RequestID = d.nonempty()
		case "source_id":
			o.SourceID, _ = d.integer()
		case "candidate_index":
			o.CandidateIndex = int(d.integerMin(0))
		case "status":
			o.Status = d.literal(StatusCompleted, StatusError)
		case "memory":
			o.Memory = d.rawObject()
		case "internal_steps":
			o.InternalSteps = d.rawObjects()
		case "output":
			o.Output = d.agentDecision()
		case "error":
			o.Error = d.agentError()
		}
	})
	if seen != allFields && o.Status != "" {
		o.checkStatus(d.problem)
	}
	return o
}

// DecodeAgentDecision decodes a decision by itself.
func DecodeAgentDecision(body []byte) (*AgentDecision, error) {
	return decode(body, (*decoder).agentDecision)
}

func (d *decoder) agentDecision() *AgentDecision {
	decision := new(AgentDecision)
	d.object(agentDecisionFields, func(name string) {
		switch name {
		case "say":
			decision.Say, _ = d.string()
		case "tool_calls":
			d.array(func(int) { decision.ToolCalls = append(decision.ToolCalls, d.toolCall()) })
		}
	})
	decision.checkExclusive(d.problem)
	return decision
}

func (d *decoder) toolCall() (c ToolCall) {
	c.Arguments = emptyObject
	d.object(toolCallFields, func(name string) {
		switch name {
		case "name":
			c.Name = d.nonempty()
		case "arguments":
			c.Arguments = d.rawObject()
		case "target_robot_name":
			c.TargetRobotName = d.nonempty()
		}
	})
	return c
}

func (d *decoder) agentError() *AgentError {
	e := new(AgentError)
	d.object(agentErrorFields, func(name string) {
		switch name {
		case "code":
			e.Code = d.nonempty()
		case "message":
			e.Message = d.nonempty()
		case "component":
			e.Component, _ = d.string()
		}
	})
	return e
}

// report receives a problem at or below the validated value.
type report func(typ, msg string, below ...any)

// checkStatus checks the status against output and error.
func (o *AgentOutput) checkStatus(problem report) {
	completed := o.Status == StatusCompleted
	switch {
	case completed && o.Output == nil:
		problem(TypeValue, `a "completed" candidate requires an output`, "output")
	case !completed && o.Output != nil:
		problem(TypeValue, `an "error" candidate must not have an output`, "output")
	}
	switch {
	case completed && o.Error != nil:
		problem(TypeValue, `a "completed" candidate must not have an error`, "error")
	case !completed && o.Error == nil:
		problem(TypeValue, `an "error" candidate requires an error`, "error")
	}
}

// checkExclusive checks that a decision does not have both a reply and calls.
func (a *AgentDecision) checkExclusive(problem report) {
	if a.Say != "" && len(a.ToolCalls) > 0 {
		problem(TypeValue, "say and tool_calls must not both be nonempty; send one of them")
	}
}

// Validate checks the rules of a decision. The error is [Problems].
func (a *AgentDecision) Validate() error {
	var v validator
	v.decision(a)
	return v.err()
}

// AppendResponse appends the response of POST /v1/responses. Memories and other raw values are
// copied, not parsed.
func AppendResponse(dst []byte, outs []AgentOutput) []byte {
	out := sink{dst: dst}
	out.response(outs)
	return out.dst
}

// WriteResponse writes the response of POST /v1/responses. Large raw values are written from where
// they lie, so the whole response is never in memory. The error is w's.
func WriteResponse(w io.Writer, outs []AgentOutput) error {
	out := sink{to: w}
	out.response(outs)
	out.flush()
	return out.err
}

// ResponseSize is about the number of bytes of the response of POST /v1/responses.
func ResponseSize(outs []AgentOutput) int {
	size := 2
	for i := range outs {
		size += len(outs[i].Memory) + 512
		for _, step := range outs[i].InternalSteps {
			size += len(step) + 1
		}
	}
	return size
}

// HeldBytes is about the memory of candidates. What neighbors share counts once.
func HeldBytes(outs []AgentOutput) int {
	held := 0
	shared := func(a, b Raw) bool { return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b) }
	before := &AgentOutput{}
	for i := range outs {
		o := &outs[i]
		held += structBytes
		if !shared(o.Memory, before.Memory) {
			held += cap(o.Memory)
		}
		for k, step := range o.InternalSteps {
			if k >= len(before.InternalSteps) || !shared(step, before.InternalSteps[k]) {
				held += cap(step)
			}
		}
		before = o
	}
	return held
}

// EncodeResponse returns the response of POST /v1/responses.
func EncodeResponse(outs []AgentOutput) []byte {
	return AppendResponse(make([]byte, 0, ResponseSize(outs)), outs) // memories are large, so growing would copy much
}

// sink takes JSON: appended to dst, or written to a writer.
type sink struct {
	dst []byte
	to  io.Writer // nil: all is appended
	err error     // of to, the first one
}

// flush writes what was appended.
func (s *sink) flush() {
	if s.to != nil && s.err == nil && len(s.dst) > 0 {
		_, s.err = s.to.Write(s.dst)
	}
	if s.to != nil {
		s.dst = s.dst[:0]
	}
}

// object takes a raw object; nil is {}.
func (s *sink) object(v Raw) {
	if s.to == nil || len(v) < sinkDirect {
		s.dst = appendObject(v, s.dst)
		return
	}
	s.flush()
	if s.err == nil {
		_, s.err = s.to.Write(v)
	}
}

func (s *sink) response(outs []AgentOutput) {
	s.dst = append(s.dst, '[')
	for i := range outs {
		if i > 0 {
			s.dst = append(s.dst, ',')
		}
		s.output(&outs[i])
		if len(s.dst) > sinkDirect {
			s.flush()
		}
	}
	s.dst = append(s.dst, ']')
}

func (s *sink) output(o *AgentOutput) {
	s.dst = append(s.dst, `{"request_id":`...)
	s.dst = appendString(s.dst, o.RequestID)
	s.dst = appendInt(s.dst, `,"source_id":`, o.SourceID)
	s.dst = appendInt(s.dst, `,"candidate_index":`, int64(o.CandidateIndex))
	s.dst = append(s.dst, `,"status":`...)
	s.dst = appendString(s.dst, o.Status)
	s.dst = append(s.dst, `,"memory":`...)
	s.object(o.Memory)
	s.dst = append(s.dst, `,"internal_steps":[`...)
	for i, step := range o.InternalSteps {
		if i > 0 {
			s.dst = append(s.dst, ',')
		}
		s.object(step)
	}
	s.dst = append(s.dst, ']')
	if o.Output != nil {
		s.dst = append(s.dst, `,"output":`...)
		s.dst = o.Output.AppendJSON(s.dst)
	}
	if o.Error != nil {
		s.dst = append(s.dst, `,"error":`...)
		s.dst = o.Error.AppendJSON(s.dst)
	}
	s.dst = append(s.dst, '}')
}

// AppendOutput appends one candidate.
func AppendOutput(dst []byte, o *AgentOutput) []byte {
	out := sink{dst: dst}
	out.output(o)
	return out.dst
}

// AppendJSON appends the candidate.
func (o *AgentOutput) AppendJSON(dst []byte) []byte { return AppendOutput(dst, o) }

// AppendJSON appends the decision, both fields always.
func (a *AgentDecision) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"say":`...)
	dst = appendString(dst, a.Say)
	dst = append(dst, `,"tool_calls":`...)
	dst = appendList(dst, a.ToolCalls, ToolCall.AppendJSON)
	return append(dst, '}')
}

// AppendJSON appends the call.
func (c ToolCall) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"name":`...)
	dst = appendString(dst, c.Name)
	dst = append(dst, `,"arguments":`...)
	dst = appendObject(c.Arguments, dst)
	dst = append(dst, `,"target_robot_name":`...)
	dst = appendString(dst, c.TargetRobotName)
	return append(dst, '}')
}

// AppendJSON appends the error, its component only when there is one.
func (e *AgentError) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"code":`...)
	dst = appendString(dst, e.Code)
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, e.Message)
	dst = appendOptionalString(dst, `,"component":`, e.Component)
	return append(dst, '}')
}
