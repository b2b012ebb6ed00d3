package protocol

// AppendJSON appends the request, with the context fields at the top.
func (r *SpecializedCoachingRequest) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"run_id":`...)
	dst = appendString(dst, r.RunID)
	dst = append(dst, `,"request_id":`...)
	dst = appendString(dst, r.RequestID)
	dst = append(dst, `,"kind":`...)
	dst = appendString(dst, r.Kind)
	dst = append(dst, `,"stage":`...)
	dst = r.Stage.AppendJSON(dst)
	if len(r.ActiveErrors) > 0 {
		dst = append(dst, `,"active_errors":`...)
		dst = appendList(dst, r.ActiveErrors, func(v Raw, dst []byte) []byte { return append(dst, v...) })
	}
	if len(r.Diagnosis) > 0 {
		dst = append(dst, `,"diagnosis":`...)
		dst = append(dst, r.Diagnosis...)
	}
	dst = appendInt(dst, `,"target_step_id":`, r.TargetStepID)
	dst = append(dst, `,"trajectory":`...)
	dst = appendList(dst, r.Trajectory, func(s TrajectoryStep, dst []byte) []byte { return s.AppendJSON(dst) })
	dst = append(dst, `,"reinjection_points":`...)
	dst = appendList(dst, r.ReinjectionPoints, func(p ReinjectionPoint, dst []byte) []byte { return p.AppendJSON(dst) })
	dst = appendOptionalObject(dst, `,"additional_info":`, r.AdditionalInfo)
	return append(dst, '}')
}

// AppendJSON appends the stage, as a string if it has no id.
func (s *CoachingStage) AppendJSON(dst []byte) []byte {
	if s.ID == nil {
		return appendString(dst, s.Goal)
	}
	dst = appendInt(dst, `{"id":`, *s.ID)
	dst = append(dst, `,"goal":`...)
	dst = appendString(dst, s.Goal)
	dst = appendOptionalString(dst, `,"hint":`, s.Hint)
	return append(dst, '}')
}

// AppendJSON appends the step.
func (s *TrajectoryStep) AppendJSON(dst []byte) []byte {
	dst = appendInt(dst, `{"id":`, s.ID)
	dst = append(dst, `,"input":`...)
	dst = s.Input.AppendJSON(dst)
	if s.Output != nil {
		dst = append(dst, `,"output":`...)
		dst = s.Output.AppendJSON(dst)
	}
	if s.Error != nil {
		dst = append(dst, `,"error":`...)
		dst = s.Error.AppendJSON(dst)
	}
	if len(s.InternalSteps) > 0 {
		dst = append(dst, `,"internal_steps":`...)
		dst = appendList(dst, s.InternalSteps, appendObject)
	}
	dst = appendOptionalObject(dst, `,"execution":`, s.Execution)
	return append(dst, '}')
}

// AppendJSON appends the point.
func (p *ReinjectionPoint) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, p.ID)
	if p.InputStepID != nil {
		dst = appendInt(dst, `,"input_step_id":`, *p.InputStepID)
	}
	if p.Input != nil {
		dst = append(dst, `,"input":`...)
		dst = p.Input.AppendJSON(dst)
	}
	return append(dst, '}')
}

// AppendJSON appends the error.
func (e *CoachingError) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"code":`...)
	dst = appendString(dst, e.Code)
	dst = append(dst, `,"description":`...)
	dst = appendString(dst, e.Description)
	dst = appendOptionalObject(dst, `,"details":`, e.Details)
	return append(dst, '}')
}

// AppendJSON appends the diagnosis.
func (c *CoachingDiagnosis) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"explanation":`...)
	dst = appendString(dst, c.Explanation)
	dst = appendOptionalString(dst, `,"expected_decision":`, c.ExpectedDecision)
	return append(dst, '}')
}
