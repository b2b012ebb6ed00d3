package protocol

// Statuses of a person's answer.
const (
	HumanCompleted = "completed" // output holds the correction
	HumanSkipped   = "skipped"   // error holds the reason
	HumanAborted   = "aborted"   // error holds the reason
)

// HumanCoachingRequest is the body of POST {endpoint}/v1/coaching/requests, a task for a person.
// The response comes when the person has answered.
type HumanCoachingRequest struct {
	RequestID             string `wire:"request_id,required"`
	PayloadID             int64  `wire:"payload_id,required"`
	PayloadType           string `wire:"payload_type,required"`
	Payload               Raw    `wire:"payload,required"`
	RenderedPrompt        string `wire:"rendered_prompt,required"`
	AllowForceSaveExample bool   `wire:"allow_force_save_example,always"`
}

// HumanCoachingResponse is a person's answer.
type HumanCoachingResponse struct {
	RequestID        string  `wire:"request_id,required"` // the request's
	Status           string  `wire:"status,required,oneof=completed|skipped|aborted"`
	Output           *string `wire:"output,nullable"` // the JSON text of the correction; required when completed
	Error            string  `wire:"error,nullable"`  // required unless completed
	ForceSaveExample bool    `wire:"force_save_example,always"`
}

// DecodeHumanCoachingRequest decodes a task for a person.
func DecodeHumanCoachingRequest(body []byte) (*HumanCoachingRequest, error) {
	return decode[HumanCoachingRequest](body, MaxDepth)
}

// DecodeHumanCoachingResponse decodes a person's answer; [HumanCoachingResponse.Validate] compares it with the task.
func DecodeHumanCoachingResponse(body []byte) (*HumanCoachingResponse, error) {
	return decode[HumanCoachingResponse](body, MaxDepth)
}

// check checks that the other fields fit a valid status.
func (r *HumanCoachingResponse) check(problem report, _ presence) {
	switch r.Status {
	case HumanCompleted:
		if r.Output == nil {
			problem(TypeValue, `status "completed" requires an output`, "output")
		}
	case HumanSkipped, HumanAborted:
		if r.Error == "" {
			problem(TypeValue, "status "+quote(r.Status)+" requires a reason in error", "error")
		}
		if r.ForceSaveExample {
			problem(TypeValue, "status "+quote(r.Status)+" cannot force-save an example", "force_save_example")
		}
	}
}

// Validate checks the answer and that it has the task's request id. The error is [Problems].
func (r *HumanCoachingResponse) Validate(req *HumanCoachingRequest) error {
	var v validator
	v.requestID(r.RequestID, req.RequestID)
	v.literal(r.Status, []string{HumanCompleted, HumanSkipped, HumanAborted}, "status")
	r.check(v.problem, presence{})
	if r.Status == HumanCompleted && r.ForceSaveExample && !req.AllowForceSaveExample {
		v.problem(TypeValue, "the request does not allow to force-save an example", "force_save_example")
	}
	return v.err()
}
