package export

import (
	"fmt"

	"agentd/protocol"
)

// Corrections are the situations of a coaching request in which proposals correct a step. A proposal
// at a point with an input of its own replaces no step and is left out.
func Corrections(source string, req *protocol.SpecializedCoachingRequest, proposals []protocol.CoachingProposal) ([]*Situation, error) {
	steps := map[int64]*protocol.TrajectoryStep{}
	for i := range req.Trajectory {
		steps[req.Trajectory[i].ID] = &req.Trajectory[i]
	}
	at := map[string]*protocol.TrajectoryStep{}
	for _, point := range req.ReinjectionPoints {
		if point.InputStepID != nil {
			at[point.ID] = steps[*point.InputStepID]
		}
	}
	var list []*Situation
	for _, p := range proposals {
		replaced := at[p.ReinjectionPointID]
		if replaced == nil {
			continue
		}
		correction, err := protocol.DecodeCorrection(p.ExtraKeys)
		if err != nil {
			return nil, fmt.Errorf("%s: the proposal is invalid: %w", source, err)
		}
		decision := correction.Corrected()
		s := &Situation{Source: source, RunID: req.RunID, RequestID: req.RequestID, Input: &replaced.Input}
		s.Replaced = []Candidate{{Status: protocol.StatusCompleted, Output: replaced.Output, Steps: replaced.InternalSteps, Outcome: Failure}}
		if replaced.Output == nil {
			s.Replaced[0].Status = protocol.StatusError
		}
		// Its prompt is that of the step which it replaces.
		var prompts []protocol.Raw
		for _, step := range replaced.InternalSteps {
			if member(step, "component") == commander {
				prompts = append(prompts, protocol.SetMember(step, "origin", protocol.String(protocol.OriginCoaching)))
			}
		}
		// Whether the run went on from it is not known here. A person found it right.
		s.Candidates = []Candidate{{Status: protocol.StatusCompleted, Output: &decision, Steps: prompts, corrects: true, led: true}}
		list = append(list, s)
	}
	return list, nil
}
