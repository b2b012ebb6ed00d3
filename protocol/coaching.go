package protocol

import "fmt"

// Kinds of specialized coaching.
const (
	CoachingFailure    = "failure"
	CoachingSuboptimal = "suboptimal"
	CoachingFormat     = "format"
)

var coachingKinds = []string{CoachingFailure, CoachingSuboptimal, CoachingFormat}

// CoachingKinds returns the kinds of specialized coaching.
func CoachingKinds() []string { return append([]string(nil), coachingKinds...) }

// SpecializedCoachingRequest is the body of POST /v1/coaching, the request for a repair of one
// step of a trajectory.
type SpecializedCoachingRequest struct {
	RunID             string // nonempty; names the session
	RequestID         string // nonempty; echoed in the response
	Kind              string // one of the coaching kinds
	Stage             CoachingStage
	TargetStepID      int64 // the id of a step of Trajectory
	Trajectory        []TrajectoryStep
	ReinjectionPoints []ReinjectionPoint // may be empty; then nothing can be proposed
	ActiveErrors      []Raw              // any JSON; the usual shape is CoachingError
	Diagnosis         Raw                // any JSON, nil when absent; the usual shape is CoachingDiagnosis
	AdditionalInfo    Raw                // an object, {} when absent
}

// CoachingStage is the objective of the stage. A string is its goal.
type CoachingStage struct {
	ID   *int64 // nil when the stage was sent as a string
	Goal string
	Hint string // "" when absent
}

// TrajectoryStep is one decision of the agent with its input and result.
type TrajectoryStep struct {
	ID            int64 // unique in the trajectory
	Input         AgentInput
	Output        *AgentDecision // optional
	Error         *AgentError    // optional; both together are accepted
	InternalSteps []Raw          // objects
	Execution     Raw            // an object, {} when absent
}

// ReinjectionPoint is a place where the orchestrator can apply a correction. Exactly one of Input
// and InputStepID is set.
type ReinjectionPoint struct {
	ID          string // unique in the request
	Input       *AgentInput
	InputStepID *int64 // the id of a step of the trajectory
}

// CoachingError is the usual form of an active error.
type CoachingError struct {
	Code        string
	Description string
	Details     Raw // an object, {} when absent
}

// CoachingDiagnosis is the usual form of a diagnosis.
type CoachingDiagnosis struct {
	Explanation      string
	ExpectedDecision string // "" when absent
}

var (
	coachingRequestFields = fields{
		required("run_id"), required("request_id"), required("kind"), required("stage"),
		required("target_step_id"), required("trajectory"), required("reinjection_points"),
		nullable("active_errors"), nullable("diagnosis"), nullable("additional_info"), nullable("context"),
	}

	coachingContextFields = fields{nullable("active_errors"), nullable("diagnosis"), nullable("additional_info")}

	coachingStageFields = fields{required("id"), required("goal"), nullable("hint")}

	trajectoryStepFields = fields{
		required("id"), required("input"), nullable("output"), nullable("error"),
		optional("internal_steps"), optional("execution"),
	}

	reinjectionPointFields = fields{required("id"), nullable("input"), nullable("input_step_id")}

	coachingErrorFields = fields{required("code"), required("description"), optional("details")}

	coachingDiagnosisFields = fields{required("explanation"), nullable("expected_decision")}
)

// DecodeSpecializedCoachingRequest decodes the body of POST /v1/coaching.
func DecodeSpecializedCoachingRequest(body []byte) (*SpecializedCoachingRequest, error) {
	return decode(body, (*decoder).coachingRequest)
}

// DecodeSpecializedCoachingRequestWithin is DecodeSpecializedCoachingRequest as
// DecodeAgentRequestWithin is DecodeAgentRequest.
func DecodeSpecializedCoachingRequestWithin(body []byte, hold func(int64) error) (r *SpecializedCoachingRequest, held int, err error) {
	return decodeWithin(body, MaxDepth, hold, (*decoder).coachingRequest)
}

func (d *decoder) coachingRequest() *SpecializedCoachingRequest {
	r := &SpecializedCoachingRequest{AdditionalInfo: emptyObject}
	hasTarget, sound := false, false
	seen := d.object(coachingRequestFields, func(name string) {
		switch name {
		case "run_id":
			r.RunID = d.id()
		case "request_id":
			r.RequestID = d.nonempty()
		case "kind":
			r.Kind = d.literal(coachingKinds...)
		case "stage":
			r.Stage = d.coachingStage()
		case "target_step_id":
			r.TargetStepID, hasTarget = d.integer()
		case "trajectory":
			before := len(d.problems)
			r.Trajectory = d.trajectory()
			sound = len(d.problems) == before // else a step may be there whose id could not be read
		case "reinjection_points":
			r.ReinjectionPoints = d.reinjectionPoints()
		case "context":
			d.object(coachingContextFields, func(name string) { d.coachingContext(r, name) })
		default:
			d.coachingContext(r, name)
		}
	})
	if d.stopped() || seen == allFields {
		return r
	}
	if seen.has(coachingRequestFields, "context") {
		for _, f := range coachingContextFields {
			if seen.has(coachingRequestFields, f.name) {
				d.problem(TypeValue, f.name+" is given beside context; send it in one place", f.name)
			}
		}
	}
	if sound && seen.has(coachingRequestFields, "trajectory") {
		d.checkReferences(r, hasTarget)
	}
	return r
}

// coachingContext reads one of the three fields that may be at the top or in context.
func (d *decoder) coachingContext(r *SpecializedCoachingRequest, name string) {
	switch name {
	case "active_errors":
		r.ActiveErrors = nil
		d.array(func(int) { r.ActiveErrors = append(r.ActiveErrors, d.next()) })
	case "diagnosis":
		r.Diagnosis = d.next()
	case "additional_info":
		r.AdditionalInfo = d.rawObject()
	}
}

// checkReferences checks that referenced steps exist. It skips an unknown target.
func (d *decoder) checkReferences(r *SpecializedCoachingRequest, hasTarget bool) {
	steps := make(map[int64]bool, len(r.Trajectory))
	for i := range r.Trajectory {
		steps[r.Trajectory[i].ID] = true
	}
	if hasTarget && !steps[r.TargetStepID] {
		d.problem(TypeValue, fmt.Sprintf("no step of the trajectory has the id %d", r.TargetStepID), "target_step_id")
	}
	for i, p := range r.ReinjectionPoints {
		if p.InputStepID != nil && !steps[*p.InputStepID] {
			d.problem(TypeValue, fmt.Sprintf("no step of the trajectory has the id %d", *p.InputStepID),
				"reinjection_points", i, "input_step_id")
		}
	}
}

func (d *decoder) coachingStage() (s CoachingStage) {
	if d.kind() == '"' {
		s.Goal, _ = d.string()
		return s
	}
	d.object(coachingStageFields, func(name string) {
		switch name {
		case "id":
			if id, ok := d.integer(); ok {
				s.ID = &id
			}
		case "goal":
			s.Goal, _ = d.string()
		case "hint":
			s.Hint, _ = d.string()
		}
	})
	return s
}

func (d *decoder) trajectory() (steps []TrajectoryStep) {
	first := make(map[int64]int)
	d.array(func(i int) {
		step, hasID := d.trajectoryStep()
		if hasID {
			if j, taken := first[step.ID]; taken {
				d.problem(TypeValue, fmt.Sprintf("id %d is already the id of step %d; step ids must be unique", step.ID, j), "id")
			} else {
				first[step.ID] = i
			}
		}
		steps = append(steps, step)
	})
	return steps
}

func (d *decoder) trajectoryStep() (s TrajectoryStep, hasID bool) {
	s.Execution = emptyObject
	d.object(trajectoryStepFields, func(name string) {
		switch name {
		case "id":
			s.ID, hasID = d.integer()
		case "input":
			s.Input, _ = d.agentInput()
		case "output":
			s.Output = d.agentDecision()
		case "error":
			s.Error = d.agentError()
		case "internal_steps":
			s.InternalSteps = d.rawObjects()
		case "execution":
			s.Execution = d.rawObject()
		}
	})
	return s, hasID
}

func (d *decoder) reinjectionPoints() (points []ReinjectionPoint) {
	first := make(map[string]int)
	d.array(func(i int) {
		p, hasID := d.reinjectionPoint()
		if hasID {
			if j, taken := first[p.ID]; taken {
				d.problem(TypeValue, fmt.Sprintf("id %s is already the id of point %d; point ids must be unique", quote(p.ID), j), "id")
			} else {
				first[p.ID] = i
			}
		}
		points = append(points, p)
	})
	return points
}

func (d *decoder) reinjectionPoint() (p ReinjectionPoint, hasID bool) {
	seen := d.object(reinjectionPointFields, func(name string) {
		switch name {
		case "id":
			p.ID, hasID = d.string()
		case "input":
			in, _ := d.agentInput()
			p.Input = &in
		case "input_step_id":
			if id, ok := d.integer(); ok {
				p.InputStepID = &id
			}
		}
	})
	if d.stopped() || seen == allFields {
		return p, hasID
	}
	input, step := seen.has(reinjectionPointFields, "input"), seen.has(reinjectionPointFields, "input_step_id")
	if input == step {
		d.problem(TypeValue, "exactly one of input and input_step_id is required")
	}
	return p, hasID
}

// DecodeCoachingError decodes an active error of the usual form.
func DecodeCoachingError(raw Raw) (*CoachingError, error) {
	return decode(raw, func(d *decoder) *CoachingError {
		e := &CoachingError{Details: emptyObject}
		d.object(coachingErrorFields, func(name string) {
			switch name {
			case "code":
				e.Code, _ = d.string()
			case "description":
				e.Description, _ = d.string()
			case "details":
				e.Details = d.rawObject()
			}
		})
		return e
	})
}

// DecodeCoachingDiagnosis decodes a diagnosis of the usual form.
func DecodeCoachingDiagnosis(raw Raw) (*CoachingDiagnosis, error) {
	return decode(raw, func(d *decoder) *CoachingDiagnosis {
		diagnosis := new(CoachingDiagnosis)
		d.object(coachingDiagnosisFields, func(name string) {
			switch name {
			case "explanation":
				diagnosis.Explanation, _ = d.string()
			case "expected_decision":
				diagnosis.ExpectedDecision, _ = d.string()
			}
		})
		return diagnosis
	})
}
