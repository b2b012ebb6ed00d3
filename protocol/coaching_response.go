package protocol

import "regexp"

// Statuses of a specialized coaching response.
const (
	CoachingCorrected = "corrected"
	CoachingAbandoned = "abandoned" // the coach declined, or found no valid correction
	CoachingFailed    = "error"     // no coach could be reached, or it broke the protocol
)

// SpecializedCoachingResponse is the body of the response of POST /v1/coaching.
type SpecializedCoachingResponse struct {
	RequestID string             `wire:"request_id,required,nonempty"` // the request's
	Status    string             `wire:"status,required,oneof=corrected|abandoned|error"`
	Proposals []CoachingProposal `wire:"proposals"`       // nonempty exactly when corrected
	Reason    string             `wire:"reason,nullable"` // nonempty unless corrected
	Logs      []CoachingLog      `wire:"logs"`
}

// CoachingProposal offers a correction at one reinjection point.
type CoachingProposal struct {
	ReinjectionPointID string `wire:"reinjection_point_id,required"`
	ExtraKeys          Raw    `wire:"extra_keys,required"` // becomes extra_keys.coaching of the input at that point
}

// CoachingLog is a text for the orchestrator's records.
type CoachingLog struct {
	CoachingType string `wire:"coaching_type,required"` // lower-case letters, digits and underscores, first a letter
	Content      string `wire:"content,required"`       // Markdown or plain text
}

// DecodeSpecializedCoachingResponse decodes the response of POST /v1/coaching without its request.
func DecodeSpecializedCoachingResponse(body []byte) (*SpecializedCoachingResponse, error) {
	return decode[SpecializedCoachingResponse](body, MaxResponseDepth)
}

func (l *CoachingLog) check(problem report, p presence) {
	if p.valid("coaching_type") && !coachingType.MatchString(l.CoachingType) {
		problem(TypeStringPattern, coachingTypeRule+", not "+quote(l.CoachingType), "coaching_type")
	}
}

const coachingTypeRule = "must be lower-case letters, digits and underscores, a letter first"

var coachingType = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// check checks that proposals and reason fit a valid status.
func (r *SpecializedCoachingResponse) check(problem report, _ presence) {
	switch r.Status {
	case CoachingCorrected:
		if len(r.Proposals) == 0 {
			problem(TypeValue, `status "corrected" requires at least one proposal`, "proposals")
		}
	case CoachingAbandoned, CoachingFailed:
		if len(r.Proposals) > 0 {
			problem(TypeValue, "status "+quote(r.Status)+" must not have proposals", "proposals")
		}
		if r.Reason == "" {
			problem(TypeValue, "status "+quote(r.Status)+" requires a reason", "reason")
		}
	}
}

// Validate checks the response by itself and against its request: it has the same request id, and
// every proposal names a point of the request. The error is [Problems], located in the response.
func (r *SpecializedCoachingResponse) Validate(req *SpecializedCoachingRequest) error {
	var v validator
	v.requestID(r.RequestID, req.RequestID)
	v.literal(r.Status, []string{CoachingCorrected, CoachingAbandoned, CoachingFailed}, "status")
	r.check(v.problem, presence{})
	points := make(map[string]bool, len(req.ReinjectionPoints))
	for _, p := range req.ReinjectionPoints {
		points[p.ID] = true
	}
	for i, p := range r.Proposals {
		if !points[p.ReinjectionPointID] {
			v.problem(TypeValue, "the request has no reinjection point "+quote(p.ReinjectionPointID),
				"proposals", i, "reinjection_point_id")
		}
		v.object(p.ExtraKeys, "proposals", i, "extra_keys")
	}
	for i, l := range r.Logs {
		if !coachingType.MatchString(l.CoachingType) {
			v.problem(TypeStringPattern, coachingTypeRule+", not "+quote(l.CoachingType), "logs", i, "coaching_type")
		}
	}
	return v.err()
}
