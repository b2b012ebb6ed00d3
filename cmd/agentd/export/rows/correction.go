package rows

import (
	"fmt"
	"slices"

	"agentd/protocol"
)

// Corrections are the situations of a coaching request in which proposals correct a step, one for
// each proposal. What a proposal replaced is the step that its point names, or the steps with the
// point's own input. It may be missing.
func Corrections(source string, req *protocol.SpecializedCoachingRequest, proposals []protocol.CoachingProposal) ([]*Situation, error) {
	points := map[string]*protocol.ReinjectionPoint{}
	for i := range req.ReinjectionPoints {
		points[req.ReinjectionPoints[i].ID] = &req.ReinjectionPoints[i]
	}
	var list []*Situation
	for _, p := range proposals {
		correction, err := protocol.DecodeCorrection(p.ExtraKeys)
		if err != nil {
			return nil, fmt.Errorf("%s: the proposal is invalid: %w", source, err)
		}
		point := points[p.ReinjectionPointID]
		if point == nil {
			return nil, fmt.Errorf("%s: the proposal names the reinjection point %q, which its request does not have", source, p.ReinjectionPointID)
		}
		decision := correction.Corrected()
		s := &Situation{Source: source, RunID: req.RunID, RequestID: req.RequestID, Input: point.Input, task: true}
		for i := range req.Trajectory {
			step := &req.Trajectory[i]
			if point.InputStepID != nil && step.ID == *point.InputStepID {
				s.Input = &step.Input
			} else if point.Input == nil || (&Situation{Input: &step.Input}).Key() != s.Key() {
				continue
			}
			replaced := Candidate{Status: protocol.StatusCompleted, Output: step.Output, Steps: step.InternalSteps, Outcome: Failure}
			if step.Output == nil {
				replaced.Status = protocol.StatusError
			}
			s.Replaced = append(s.Replaced, replaced)
		}
		// Whether the run went on from it is not known here. A person found it right.
		s.Candidates = []Candidate{{Status: protocol.StatusCompleted, Output: &decision, Steps: promptOf(s.Replaced), corrects: true, led: true}}
		list = append(list, s)
	}
	return list, nil
}

// promptOf is the step of an answer that a correction replaced, without what the model generated. Its
// prompt is that of a correction which has no steps of its own, such as a person's at the console.
func promptOf(replaced []Candidate) []protocol.Raw {
	for i := range replaced {
		for _, step := range slices.Backward(replaced[i].Steps) {
			elements, ok := protocol.Get(step, "input_elements")
			if !ok || elements.Kind() != '{' || member(step, "component") != commander {
				continue
			}
			kept := protocol.Raw("{}")
			generated, _ := protocol.Get(elements, "generation")
			if at, differs := protocol.Get(generated, promptDiffers); differs {
				kept = protocol.SetMember(kept, promptDiffers, at)
			}
			step = protocol.SetMember(step, "input_elements", protocol.SetMember(elements, "generation", kept))
			return []protocol.Raw{protocol.SetMember(step, "origin", protocol.String(protocol.OriginCoaching))}
		}
	}
	return nil
}
