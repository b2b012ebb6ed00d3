package protocol

import (
	"fmt"
	"slices"
)

// Statuses of a specialized coaching response.
const (
	CoachingCorrected = "corrected"
	CoachingAbandoned = "abandoned" // the coach declined, or found no valid correction
	CoachingFailed    = "error"     // no coach could be reached, or it broke the protocol
)

// SpecializedCoachingResponse is the body of the response of POST /v1/coaching.
type SpecializedCoachingResponse struct {
	RequestID string             // the request's
	Status    string             // CoachingCorrected, CoachingAbandoned or CoachingFailed
	Proposals []CoachingProposal // nonempty exactly when corrected
	Reason    string             // nonempty unless corrected
	Logs      []CoachingLog
}

// CoachingProposal offers a correction at one reinjection point.
type CoachingProposal struct {
	ReinjectionPointID string
	ExtraKeys          Raw // an object; becomes extra_keys.coaching of the input at that point
}

// CoachingLog is a text for the orchestrator's records.
type CoachingLog struct {
	CoachingType string // lower-case letters, digits and underscores, first a letter
	Content      string // Markdown or plain text
}

var (
	coachingResponseFields = fields{
		required("request_id"), required("status"), optional("proposals"), nullable("reason"), optional("logs"),
	}

	coachingProposalFields = fields{required("reinjection_point_id"), required("extra_keys")}

	coachingLogFields = fields{required("coaching_type"), required("content")}
)

// DecodeSpecializedCoachingResponse decodes the response of POST /v1/coaching
// and validates it without its request; see [SpecializedCoachingResponse.Validate].
func DecodeSpecializedCoachingResponse(body []byte) (*SpecializedCoachingResponse, error) {
	return decodeDepth(body, MaxResponseDepth, func(d *decoder) *SpecializedCoachingResponse {
		r := new(SpecializedCoachingResponse)
		seen := d.object(coachingResponseFields, func(name string) {
			switch name {
			case "request_id":
				r.RequestID = d.nonempty()
			case "status":
				r.Status = d.literal(CoachingCorrected, CoachingAbandoned, CoachingFailed)
			case "proposals":
				d.array(func(int) { r.Proposals = append(r.Proposals, d.coachingProposal()) })
			case "reason":
				r.Reason, _ = d.string()
			case "logs":
				d.array(func(int) { r.Logs = append(r.Logs, d.coachingLog()) })
			}
		})
		if seen != allFields && r.Status != "" {
			r.checkStatus(d.problem)
		}
		return r
	})
}

func (d *decoder) coachingProposal() (p CoachingProposal) {
	p.ExtraKeys = emptyObject
	d.object(coachingProposalFields, func(name string) {
		switch name {
		case "reinjection_point_id":
			p.ReinjectionPointID, _ = d.string()
		case "extra_keys":
			p.ExtraKeys = d.rawObject()
		}
	})
	return p
}

func (d *decoder) coachingLog() (l CoachingLog) {
	d.object(coachingLogFields, func(name string) {
		switch name {
		case "coaching_type":
			s, ok := d.string()
			if ok && !isCoachingType(s) {
				d.problem(TypeStringPattern, coachingTypeRule+", not "+quote(s))
			}
			l.CoachingType = s
		case "content":
			l.Content, _ = d.string()
		}
	})
	return l
}

const coachingTypeRule = "must be lower-case letters, digits and underscores, a letter first"

// isCoachingType reports whether s matches ^[a-z][a-z0-9_]*$.
func isCoachingType(s string) bool {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	return !slices.ContainsFunc([]byte(s), func(c byte) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_'
	})
}

// checkStatus checks the status against proposals and reason.
func (r *SpecializedCoachingResponse) checkStatus(problem report) {
	if r.Status == CoachingCorrected {
		if len(r.Proposals) == 0 {
			problem(TypeValue, `status "corrected" requires at least one proposal`, "proposals")
		}
		return
	}
	if len(r.Proposals) > 0 {
		problem(TypeValue, "status "+quote(r.Status)+" must not have proposals", "proposals")
	}
	if r.Reason == "" {
		problem(TypeValue, "status "+quote(r.Status)+" requires a reason", "reason")
	}
}

// Validate checks the response by itself and against its request: it has the same request id, and
// every proposal names a point of the request. The error is [Problems], located in the response.
func (r *SpecializedCoachingResponse) Validate(req *SpecializedCoachingRequest) error {
	var v validator
	if r.RequestID != req.RequestID {
		v.problem(TypeValue, fmt.Sprintf("must be the request's %s, not %s", quote(req.RequestID), quote(r.RequestID)), "request_id")
	}
	switch r.Status {
	case CoachingCorrected, CoachingAbandoned, CoachingFailed:
		r.checkStatus(v.problem)
	default:
		v.problem(TypeLiteral, `must be "corrected", "abandoned" or "error", not `+quote(r.Status), "status")
	}
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
		if !isCoachingType(l.CoachingType) {
			v.problem(TypeStringPattern, coachingTypeRule+", not "+quote(l.CoachingType), "logs", i, "coaching_type")
		}
	}
	return v.err()
}

// AppendJSON appends the response without empty proposals, reason and logs.
func (r *SpecializedCoachingResponse) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"request_id":`...)
	dst = appendString(dst, r.RequestID)
	dst = append(dst, `,"status":`...)
	dst = appendString(dst, r.Status)
	if len(r.Proposals) > 0 {
		dst = append(dst, `,"proposals":`...)
		dst = appendList(dst, r.Proposals, CoachingProposal.AppendJSON)
	}
	dst = appendOptionalString(dst, `,"reason":`, r.Reason)
	if len(r.Logs) > 0 {
		dst = append(dst, `,"logs":`...)
		dst = appendList(dst, r.Logs, CoachingLog.AppendJSON)
	}
	return append(dst, '}')
}

// AppendJSON appends the proposal.
func (p CoachingProposal) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"reinjection_point_id":`...)
	dst = appendString(dst, p.ReinjectionPointID)
	dst = append(dst, `,"extra_keys":`...)
	dst = appendObject(p.ExtraKeys, dst)
	return append(dst, '}')
}

// AppendJSON appends the log.
func (l CoachingLog) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"coaching_type":`...)
	dst = appendString(dst, l.CoachingType)
	dst = append(dst, `,"content":`...)
	dst = appendString(dst, l.Content)
	return append(dst, '}')
}
