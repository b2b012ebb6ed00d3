package protocol

import (
	"fmt"
	"slices"
)

// validator collects the problems of values that Go code made.
type validator struct {
	path     []any
	problems Problems
}

func (v *validator) problem(typ, msg string, below ...any) {
	loc := make([]any, 0, len(v.path)+len(below))
	v.problems.Add(NewProblem(typ, msg, append(append(loc, v.path...), below...)...))
}

// below runs check with the location extended by steps.
func (v *validator) below(check func(), steps ...any) {
	n := len(v.path)
	v.path = append(v.path, steps...)
	check()
	v.path = v.path[:n]
}

func (v *validator) err() error { return v.problems.err() }

func (v *validator) nonempty(s string, below ...any) {
	if s == "" {
		v.problem(TypeStringTooShort, "must not be empty", below...)
	}
}

func (v *validator) literal(s string, allowed []string, below ...any) {
	if !slices.Contains(allowed, s) {
		v.problem(TypeLiteral, "must be "+oneOf(allowed)+", not "+quote(s), below...)
	}
}

func (v *validator) requestID(got, want string) {
	if got != want {
		v.problem(TypeValue, "must be the request's "+quote(want)+", not "+quote(got), "request_id")
	}
}

// object checks only the brackets of raw, which is valid JSON already.
func (v *validator) object(raw Raw, below ...any) {
	if len(raw) < 2 || raw[0] != '{' || raw[len(raw)-1] != '}' {
		v.problem(TypeDict, "must be an object", below...)
	}
}

// output checks a candidate. want has the ids that it must have; nil means any.
func (v *validator) output(o *AgentOutput, want *AgentOutput) {
	v.nonempty(o.RequestID, "request_id")
	if o.CandidateIndex < 0 {
		v.problem(TypeGreaterEqual, "must be at least 0", "candidate_index")
	}
	v.literal(o.Status, []string{StatusCompleted, StatusError}, "status")
	o.check(v.problem, presence{})
	v.object(o.Memory, "memory")
	for i, step := range o.InternalSteps {
		v.object(step, "internal_steps", i)
	}
	if a := o.Output; a != nil {
		v.below(func() { a.check(v.problem, presence{}) }, "output")
		for i := range a.ToolCalls {
			call := &a.ToolCalls[i]
			v.nonempty(call.Name, "output", "tool_calls", i, "name")
			v.object(call.Arguments, "output", "tool_calls", i, "arguments")
			v.nonempty(call.TargetRobotName, "output", "tool_calls", i, "target_robot_name")
		}
	}
	if o.Error != nil {
		v.nonempty(o.Error.Code, "error", "code")
		v.nonempty(o.Error.Message, "error", "message")
	}
	if want == nil {
		return
	}
	if o.RequestID != "" {
		v.requestID(o.RequestID, want.RequestID)
	}
	if o.SourceID != want.SourceID {
		v.problem(TypeValue, fmt.Sprintf("must be %d, the id of the input at this place, not %d", want.SourceID, o.SourceID), "source_id")
	}
	if o.CandidateIndex != want.CandidateIndex {
		v.problem(TypeValue, fmt.Sprintf("must be %d, ascending from 0 for each input, not %d", want.CandidateIndex, o.CandidateIndex), "candidate_index")
	}
}

// ValidateResponse checks a complete response against its request: each
// candidate, their number, order and ids. The error is [Problems].
func ValidateResponse(req *AgentRequest, outs []AgentOutput) error {
	var v validator
	if want := req.Candidates(); len(outs) != want {
		v.problem(TypeValue, fmt.Sprintf("holds %d candidates; the request asks for %d", len(outs), want))
	}
	k := 0
	for i := range req.Inputs {
		in := &req.Inputs[i]
		for c := 0; c < max(1, in.NumOutputs) && k < len(outs); c++ {
			want := AgentOutput{RequestID: req.RequestID, SourceID: in.ID, CandidateIndex: c}
			v.below(func() { v.output(&outs[k], &want) }, k)
			k++
		}
	}
	for ; k < len(outs); k++ {
		v.below(func() { v.output(&outs[k], nil) }, k)
	}
	return v.err()
}

// ValidateCandidate checks one candidate of an input against the request. The error is [Problems].
func ValidateCandidate(req *AgentRequest, input, index int, o *AgentOutput) error {
	var v validator
	v.output(o, &AgentOutput{RequestID: req.RequestID, SourceID: req.Inputs[input].ID, CandidateIndex: index})
	return v.err()
}
