package console

import (
	"errors"
	"fmt"

	"agentd/protocol"
)

// Corrected is a task that a person has corrected.
type Corrected struct {
	ID        string // its number
	Person    string // who corrected it
	Request   *protocol.SpecializedCoachingRequest
	Proposals []protocol.CoachingProposal
}

// EachCorrected calls f for the corrected tasks in the file at a path, oldest first. No console may
// have it open. Tasks without a coaching request of the protocol are left out.
func EachCorrected(path string, f func(*Corrected) error) (err error) {
	s, err := openStore(path, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return s.view(func(x txn) error {
		return x.each(true, func(t *task) error {
			c, err := corrected(x, t)
			if err == nil && c != nil {
				err = f(c)
			}
			if err != nil {
				return fmt.Errorf("task %d: %w", t.Seq, err)
			}
			return nil
		})
	})
}

// corrected returns a task with its correction; nil if it has none, or if its request is not one of the protocol's.
func corrected(x txn, t *task) (*Corrected, error) {
	if t.Answer == nil || t.Claim == nil || t.Answer.Status != protocol.HumanCompleted || t.Answer.Output == nil {
		return nil, nil
	}
	req, err := protocol.DecodeHumanCoachingRequest(x.part(bucketRequests, t.Seq))
	if err != nil {
		return nil, fmt.Errorf("the stored task is damaged: %w", err)
	}
	view := newTaskView(req)
	if view.repair == nil {
		return nil, nil
	}
	verdict, err := view.repair.ReadHuman(*t.Answer.Output)
	if err != nil {
		return nil, fmt.Errorf("the answer is not a correction: %w", err)
	}
	return &Corrected{ID: taskID(t.Seq), Person: t.Claim.Person, Request: view.decoded, Proposals: verdict.Proposals}, nil
}
