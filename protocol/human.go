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
	RequestID             string
	PayloadID             int64
	PayloadType           string
	Payload               Raw // an object
	RenderedPrompt        string
	AllowForceSaveExample bool
}

// HumanCoachingResponse is a person's answer.
type HumanCoachingResponse struct {
	RequestID        string  // the request's
	Status           string  // HumanCompleted, HumanSkipped or HumanAborted
	Output           *string // the JSON text of the correction; required when completed
	Error            string  // required unless completed
	ForceSaveExample bool
}

var (
	humanRequestFields = fields{
		required("request_id"), required("payload_id"), required("payload_type"), required("payload"),
		required("rendered_prompt"), optional("allow_force_save_example"),
	}

	humanResponseFields = fields{
		required("request_id"), required("status"), nullable("output"), nullable("error"), optional("force_save_example"),
	}
)

// DecodeHumanCoachingRequest decodes a task for a person.
func DecodeHumanCoachingRequest(body []byte) (*HumanCoachingRequest, error) {
	return decode(body, func(d *decoder) *HumanCoachingRequest {
		r := &HumanCoachingRequest{Payload: emptyObject}
		d.object(humanRequestFields, func(name string) {
			switch name {
			case "request_id":
				r.RequestID, _ = d.string()
			case "payload_id":
				r.PayloadID, _ = d.integer()
			case "payload_type":
				r.PayloadType, _ = d.string()
			case "payload":
				r.Payload = d.rawObject()
			case "rendered_prompt":
				r.RenderedPrompt, _ = d.string()
			case "allow_force_save_example":
				r.AllowForceSaveExample = d.boolean()
			}
		})
		return r
	})
}

// DecodeHumanCoachingResponse decodes a person's answer and validates it without its task; see
// [HumanCoachingResponse.Validate].
func DecodeHumanCoachingResponse(body []byte) (*HumanCoachingResponse, error) {
	return decode(body, func(d *decoder) *HumanCoachingResponse {
		r := new(HumanCoachingResponse)
		seen := d.object(humanResponseFields, func(name string) {
			switch name {
			case "request_id":
				r.RequestID, _ = d.string()
			case "status":
				r.Status = d.literal(HumanCompleted, HumanSkipped, HumanAborted)
			case "output":
				if s, ok := d.string(); ok {
					r.Output = &s
				}
			case "error":
				r.Error, _ = d.string()
			case "force_save_example":
				r.ForceSaveExample = d.boolean()
			}
		})
		if seen != allFields && r.Status != "" {
			r.checkStatus(d.problem)
		}
		return r
	})
}

func (r *HumanCoachingResponse) checkStatus(problem report) {
	if r.Status == HumanCompleted {
		if r.Output == nil {
			problem(TypeValue, `status "completed" requires an output`, "output")
		}
		return
	}
	if r.Error == "" {
		problem(TypeValue, "status "+quote(r.Status)+" requires a reason in error", "error")
	}
	if r.ForceSaveExample {
		problem(TypeValue, "status "+quote(r.Status)+" cannot force-save an example", "force_save_example")
	}
}

// Validate checks the answer by itself and against the task. The error is
// [Problems].
func (r *HumanCoachingResponse) Validate(req *HumanCoachingRequest) error {
	var v validator
	if r.RequestID != req.RequestID {
		v.problem(TypeValue, "must be the request's "+quote(req.RequestID)+", not "+quote(r.RequestID), "request_id")
	}
	switch r.Status {
	case HumanCompleted, HumanSkipped, HumanAborted:
		r.checkStatus(v.problem)
	default:
		v.problem(TypeLiteral, "must be "+oneOf([]string{HumanCompleted, HumanSkipped, HumanAborted})+", not "+quote(r.Status), "status")
	}
	if r.Status == HumanCompleted && r.ForceSaveExample && !req.AllowForceSaveExample {
		v.problem(TypeValue, "the request does not allow to force-save an example", "force_save_example")
	}
	return v.err()
}

// AppendJSON appends the task.
func (r *HumanCoachingRequest) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"request_id":`...)
	dst = appendString(dst, r.RequestID)
	dst = appendInt(dst, `,"payload_id":`, r.PayloadID)
	dst = append(dst, `,"payload_type":`...)
	dst = appendString(dst, r.PayloadType)
	dst = append(dst, `,"payload":`...)
	dst = appendObject(r.Payload, dst)
	dst = append(dst, `,"rendered_prompt":`...)
	dst = appendString(dst, r.RenderedPrompt)
	dst = appendBool(dst, `,"allow_force_save_example":`, r.AllowForceSaveExample)
	return append(dst, '}')
}

// AppendJSON appends the answer.
func (r *HumanCoachingResponse) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"request_id":`...)
	dst = appendString(dst, r.RequestID)
	dst = append(dst, `,"status":`...)
	dst = appendString(dst, r.Status)
	if r.Output != nil {
		dst = append(dst, `,"output":`...)
		dst = appendString(dst, *r.Output)
	}
	dst = appendOptionalString(dst, `,"error":`, r.Error)
	dst = appendBool(dst, `,"force_save_example":`, r.ForceSaveExample)
	return append(dst, '}')
}
