package console

import (
	"errors"
	"fmt"

	"agentd/protocol"
)

// Corrected is a task that a person has corrected.
type Corrected struct {
	ID        string // its number
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
	// The whole list would hold all answers, and f may take its time.
	numbers, err := collect(s, true, func(t *task) (uint64, bool) {
		return t.Seq, t.Answer != nil && t.Answer.Status == protocol.HumanCompleted && t.Answer.Output != nil
	})
	if err != nil {
		return err
	}
	views := newViewCache(s)
	for _, n := range numbers {
		c, err := corrected(s, views, n)
		if err == nil && c != nil {
			err = f(c)
		}
		if err != nil {
			return fmt.Errorf("task %d: %w", n, err)
		}
	}
	return nil
}

// corrected reads a task; nil if its request is not one of the protocol's.
func corrected(s *store, views *viewCache, n uint64) (*Corrected, error) {
	view, err := views.get(n)
	if err != nil || view.repair == nil {
		return nil, err
	}
	var t *task
	if err := s.view(func(x txn) (err error) { t, err = x.task(n); return err }); err != nil {
		return nil, err
	}
	verdict, err := view.repair.ReadHuman(*t.Answer.Output)
	if err != nil {
		return nil, fmt.Errorf("the answer is not a correction: %w", err)
	}
	return &Corrected{ID: taskID(n), Request: view.decoded, Proposals: verdict.Proposals}, nil
}
