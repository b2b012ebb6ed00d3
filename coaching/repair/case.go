package repair

import (
	"agentd/coaching/backend"
	"agentd/coaching/egress"
	"agentd/coaching/repair/check"
	"agentd/coaching/repair/prompt"
	"agentd/protocol"
)

// Case is one coaching request. It never changes and may be used by any number of
// goroutines. Its points and checks are [check.Case]'s.
type Case struct{ *check.Case }

// Point is a reinjection point of a case.
type Point = check.Point

// Verdict is a coach's decision.
type Verdict struct {
	Corrected bool   // there are proposals; else the coach declined
	Why       string // the coach's reason, for a person
	Proposals []protocol.CoachingProposal
}

// NewCase prepares a request that was decoded, and so is valid.
func NewCase(req *protocol.SpecializedCoachingRequest) *Case { return &Case{check.New(req)} }

// Redacted is the same case with keys taken out of errors and reasons; see
// [check.Case.Redacted].
func (c *Case) Redacted(keys *egress.Redactor) *Case { return &Case{c.Case.Redacted(keys)} }

// Question is the question to a model, within a budget of bytes; see [prompt.Question].
func (c *Case) Question(budget int) backend.Question { return prompt.Question(c.Case, budget) }

// HumanRequest is the task for a person; see [prompt.HumanRequest].
func (c *Case) HumanRequest(id string) *protocol.HumanCoachingRequest {
	return prompt.HumanRequest(c.Case, id)
}

// Retry asks again after an answer that could not be used; see [prompt.Retry].
func (c *Case) Retry(q backend.Question, answer string, why error) backend.Question {
	return prompt.Retry(q, answer, why)
}
