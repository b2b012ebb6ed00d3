package protocol

import (
	"fmt"
	"reflect"
)

// Kinds of specialized coaching.
const (
	CoachingFailure    = "failure"
	CoachingSuboptimal = "suboptimal"
	CoachingFormat     = "format"
)

var coachingKinds = []string{CoachingFailure, CoachingSuboptimal, CoachingFormat}

// CoachingKinds returns the kinds of specialized coaching.
func CoachingKinds() []string { return append([]string(nil), coachingKinds...) }

// SpecializedCoachingRequest is the body of POST /v1/coaching: repair one step of a trajectory.
type SpecializedCoachingRequest struct {
	RunID             string             `wire:"run_id,required,id"`           // names the session
	RequestID         string             `wire:"request_id,required,nonempty"` // echoed in the response
	Kind              string             `wire:"kind,required,oneof=failure|suboptimal|format"`
	Stage             CoachingStage      `wire:"stage,required"`
	ActiveErrors      []Raw              `wire:"active_errors,nullable,any"` // the usual shape is CoachingError
	Diagnosis         Raw                `wire:"diagnosis,nullable,any"`     // the usual shape is CoachingDiagnosis
	TargetStepID      int64              `wire:"target_step_id,required"`    // the id of a step of Trajectory
	Trajectory        []TrajectoryStep   `wire:"trajectory,required,unique=step"`
	ReinjectionPoints []ReinjectionPoint `wire:"reinjection_points,required,unique=point"` // if empty, no correction can be proposed
	AdditionalInfo    Raw                `wire:"additional_info,nullable"`
	_                 struct{}           `wire:"context,nullable"` // may hold the fields of coachingContext
}

// coachingContext has the fields that a request may give in its member context instead.
type coachingContext struct {
	ActiveErrors   []Raw `wire:"active_errors,nullable,any"`
	Diagnosis      Raw   `wire:"diagnosis,nullable,any"`
	AdditionalInfo Raw   `wire:"additional_info,nullable"`
}

// CoachingStage is the objective of the stage. A JSON string is accepted too: it is Goal.
type CoachingStage struct {
	ID   *int64 `wire:"id,required"` // nil when the stage was sent as a string
	Goal string `wire:"goal,required"`
	Hint string `wire:"hint,nullable"`
}

// TrajectoryStep is one decision of the agent with its input and result.
type TrajectoryStep struct {
	ID            int64          `wire:"id,required"` // unique in the trajectory
	Input         AgentInput     `wire:"input,required"`
	Output        *AgentDecision `wire:"output,nullable"`
	Error         *AgentError    `wire:"error,nullable"` // accepted together with output
	InternalSteps []Raw          `wire:"internal_steps"`
	Execution     Raw            `wire:"execution"`
}

// ReinjectionPoint is a place to apply a correction, with exactly one of Input and InputStepID.
type ReinjectionPoint struct {
	ID          string      `wire:"id,required"`            // unique in the request
	InputStepID *int64      `wire:"input_step_id,nullable"` // the id of a step of the trajectory
	Input       *AgentInput `wire:"input,nullable"`
}

// CoachingError is the usual form of an active error.
type CoachingError struct {
	Code        string `wire:"code,required"`
	Description string `wire:"description,required"`
	Details     Raw    `wire:"details"`
}

// CoachingDiagnosis is the usual form of a diagnosis.
type CoachingDiagnosis struct {
	Explanation      string `wire:"explanation,required"`
	ExpectedDecision string `wire:"expected_decision,nullable"`
}

// DecodeSpecializedCoachingRequest decodes the body of POST /v1/coaching.
func DecodeSpecializedCoachingRequest(body []byte) (*SpecializedCoachingRequest, error) {
	return decode[SpecializedCoachingRequest](body, MaxDepth)
}

func (r *SpecializedCoachingRequest) readOther(d *decoder, _ string) {
	c := readModel[coachingContext](d)
	r.ActiveErrors, r.Diagnosis, r.AdditionalInfo = c.ActiveErrors, c.Diagnosis, c.AdditionalInfo
}

// check checks that referenced steps exist, and that context repeats no field.
func (r *SpecializedCoachingRequest) check(problem report, p presence) {
	for _, name := range []string{"active_errors", "diagnosis", "additional_info"} {
		if p.has("context") && p.has(name) {
			problem(TypeValue, name+" is given beside context; send it in one place", name)
		}
	}
	if !p.valid("trajectory") {
		return // a step may be there whose id could not be read
	}
	steps := make(map[int64]bool, len(r.Trajectory))
	for i := range r.Trajectory {
		steps[r.Trajectory[i].ID] = true
	}
	if p.valid("target_step_id") && !steps[r.TargetStepID] {
		problem(TypeValue, fmt.Sprintf("no step of the trajectory has the id %d", r.TargetStepID), "target_step_id")
	}
	for i, point := range r.ReinjectionPoints {
		if id := point.InputStepID; id != nil && !steps[*id] {
			problem(TypeValue, fmt.Sprintf("no step of the trajectory has the id %d", *id), "reinjection_points", i, "input_step_id")
		}
	}
}

func (s *CoachingStage) read(d *decoder) {
	if d.kind() == '"' {
		s.Goal, _ = d.string(&anything)
		return
	}
	d.model(s)
}

func (s *CoachingStage) write(to *sink) {
	if s.ID == nil {
		to.text(s.Goal)
		return
	}
	to.model(reflect.ValueOf(s).Elem())
}

func (*ReinjectionPoint) check(problem report, p presence) {
	if p.has("input") == p.has("input_step_id") {
		problem(TypeValue, "exactly one of input and input_step_id is required")
	}
}

// DecodeCoachingError decodes an active error of the usual form.
func DecodeCoachingError(raw Raw) (*CoachingError, error) {
	return decode[CoachingError](raw, MaxDepth)
}

// DecodeCoachingDiagnosis decodes a diagnosis of the usual form.
func DecodeCoachingDiagnosis(raw Raw) (*CoachingDiagnosis, error) {
	return decode[CoachingDiagnosis](raw, MaxDepth)
}
