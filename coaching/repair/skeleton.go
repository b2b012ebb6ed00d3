package repair

import (
	"errors"

	"agentd/coaching/backend"
	"agentd/protocol"
)

// Verdict is what a coach decided.
type Verdict struct {
	// Corrected tells that there are proposals; else the coach declined.
	Corrected bool
	// Why is the coach's reason, for a person.
	Why       string
	Proposals []protocol.CoachingProposal
}

var errSkeleton = errors.New("not built yet")

// WithoutModel repairs the raw output of the target step without asking anyone;
// for requests of kind format only. The error says why that is not possible.
func (t *Task) WithoutModel() (*Verdict, error) { return nil, errSkeleton }

// Question is what a model is asked, within a budget of characters; 0 is
// DefaultBudget.
func (t *Task) Question(budget int) backend.Question { return backend.Question{} }

// Retry asks again after an answer that could not be used.
func (t *Task) Retry(q backend.Question, answer string, why error) backend.Question { return q }

// Read reads a coach's answer. The error tells the coach what is wrong with it.
func (t *Task) Read(answer string) (*Verdict, error) { return nil, errSkeleton }

// Check checks a decision for a point, located from the decision.
func (t *Task) Check(pointID string, d *protocol.AgentDecision) protocol.Problems { return nil }

// Proposal makes the proposal of a checked decision.
func (t *Task) Proposal(pointID string, d *protocol.AgentDecision) protocol.CoachingProposal {
	return protocol.CoachingProposal{}
}

// HumanRequest is the task for a person, with the id of the human request.
func (t *Task) HumanRequest(id string) *protocol.HumanCoachingRequest { return nil }

// ReadHuman reads the output of a person's answer.
func (t *Task) ReadHuman(output string) (*Verdict, error) { return nil, errSkeleton }
