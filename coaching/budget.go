package coaching

import (
	"sync/atomic"

	"agentd/protocol"
)

// byteBudget bounds the memory of requests. Their number alone does not, since one may
// be as long as a body may be. One request always fits.
type byteBudget struct {
	limit int64
	used  atomic.Int64
}

// take takes n bytes unless too few are left.
func (b *byteBudget) take(n int64) bool {
	if used := b.used.Add(n); used > b.limit && used > n {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *byteBudget) release(n int64) { b.used.Add(-n) }

// reserve takes n bytes of the session's budget and of that of all sessions.
func (s *session) reserve(n int64) error {
	if !s.budget.take(n) {
		return &FullError{What: "the coaching session of this run has requests in progress or waiting that are too long together", RetryAfter: maxRetryAfter}
	}
	if !s.service.requestBytes.take(n) {
		s.budget.release(n)
		return &FullError{What: "the coaching requests that are in progress or waiting are too long together", RetryAfter: maxRetryAfter}
	}
	return nil
}

func (s *session) unreserve(n int64) {
	s.budget.release(n)
	s.service.requestBytes.release(n)
}

// Approximate bytes of a list element beside its texts.
const (
	perStep, perCall, perPoint = 512, 64, 256
	perValue                   = 24
)

// size is about how many bytes a request holds.
func size(req *protocol.SpecializedCoachingRequest) int64 {
	n := len(req.RunID) + len(req.RequestID) + len(req.Stage.Goal) + len(req.Stage.Hint) + len(req.Diagnosis) + len(req.AdditionalInfo)
	n += sizes(req.ActiveErrors)
	for i := range req.Trajectory {
		step := &req.Trajectory[i]
		n += perStep + inputSize(&step.Input) + sizes(step.InternalSteps) + len(step.Execution)
		if step.Output != nil {
			n += len(step.Output.Say)
			for _, call := range step.Output.ToolCalls {
				n += perCall + len(call.Name) + len(call.Arguments) + len(call.TargetRobotName)
			}
		}
		if step.Error != nil {
			n += len(step.Error.Code) + len(step.Error.Message) + len(step.Error.Component)
		}
	}
	for i := range req.ReinjectionPoints {
		n += perPoint + len(req.ReinjectionPoints[i].ID)
		if input := req.ReinjectionPoints[i].Input; input != nil {
			n += inputSize(input)
		}
	}
	return int64(n)
}

func inputSize(in *protocol.AgentInput) int {
	return len(in.Instruction.Content) + sizes(in.Tools) + len(in.Attributes) + len(in.Memory) + len(in.ExtraKeys)
}

func sizes(list []protocol.Raw) (n int) {
	for _, v := range list {
		n += perValue + len(v)
	}
	return n
}
