package protocol

import (
	"maps"
	"slices"
)

// Versions of the contract.
const (
	Version                = "2.0" // AgentInfo.ProtocolVersion
	CoachingSessionVersion = "1"   // AgentInfo.CoachingSessionVersion
)

// Names of capabilities.
const (
	CapabilityInference = "inference"
	CapabilityCoaching  = "coaching"
)

// Values of AgentHealth.Status. Everything but HealthReady comes with 503.
const (
	HealthReady    = "ready"
	HealthLoading  = "loading"
	HealthDraining = "draining"
	HealthFailed   = "failed" // only another process can go on
	// HealthStuck begins the status of an engine with steps that do not end; the contexts follow,
	// as in "stuck: context 0".
	HealthStuck = "stuck"
)

// AgentHealth is the body of GET /health.
type AgentHealth struct {
	Status string
}

// AgentInfo is the body of GET /v1/info.
type AgentInfo struct {
	ProtocolVersion     string // Version when absent
	AgentID             string
	AgentVersion        string
	Capabilities        map[string]bool
	SpecializedCoaching []string // the kinds of coaching that the agent implements
	CoachingResume      bool     // replace_say works through /v1/responses
	// CoachingSessionVersion is "" if the session protocol is not implemented.
	CoachingSessionVersion string
	// CoachingUnavailableReason is "" unless coaching is off.
	CoachingUnavailableReason string
}

var (
	agentHealthFields = fields{required("status")}

	agentInfoFields = fields{
		optional("protocol_version"), required("agent_id"), required("agent_version"), required("capabilities"),
		optional("specialized_coaching"), optional("coaching_resume"),
		nullable("coaching_session_version"), nullable("coaching_unavailable_reason"),
	}
)

// DecodeAgentHealth decodes the body of GET /health, ready or not.
func DecodeAgentHealth(body []byte) (*AgentHealth, error) {
	return decode(body, func(d *decoder) *AgentHealth {
		h := new(AgentHealth)
		d.object(agentHealthFields, func(string) {
			h.Status = d.literalOr(HealthStuck+": ", HealthReady, HealthLoading, HealthDraining, HealthFailed)
		})
		return h
	})
}

// AppendJSON appends the health.
func (h *AgentHealth) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"status":`...)
	dst = appendString(dst, h.Status)
	return append(dst, '}')
}

// DecodeAgentInfo decodes the body of GET /v1/info of any agent. [AgentInfo.Validate] checks it
// for contradictions.
func DecodeAgentInfo(body []byte) (*AgentInfo, error) {
	return decode(body, func(d *decoder) *AgentInfo {
		info := &AgentInfo{ProtocolVersion: Version}
		d.object(agentInfoFields, func(name string) {
			switch name {
			case "protocol_version":
				info.ProtocolVersion, _ = d.string()
			case "agent_id":
				info.AgentID, _ = d.string()
			case "agent_version":
				info.AgentVersion, _ = d.string()
			case "capabilities":
				info.Capabilities = make(map[string]bool)
				d.entries(func(name string) { info.Capabilities[name] = d.boolean() })
			case "specialized_coaching":
				d.array(func(int) {
					if kind := d.literal(coachingKinds...); kind != "" {
						info.SpecializedCoaching = append(info.SpecializedCoaching, kind)
					}
				})
			case "coaching_resume":
				info.CoachingResume = d.boolean()
			case "coaching_session_version":
				info.CoachingSessionVersion, _ = d.string()
			case "coaching_unavailable_reason":
				info.CoachingUnavailableReason, _ = d.string()
			}
		})
		return info
	})
}

// Validate checks that the capabilities and the coaching fields agree. The error
// is [Problems].
func (info *AgentInfo) Validate() error {
	var v validator
	v.nonempty(info.ProtocolVersion, "protocol_version")
	v.nonempty(info.AgentID, "agent_id")
	v.nonempty(info.AgentVersion, "agent_version")
	if _, said := info.Capabilities[CapabilityInference]; !said {
		v.problem(TypeMissing, `capability "inference" must be advertised, true or false`, "capabilities", CapabilityInference)
	}
	for i, kind := range info.SpecializedCoaching {
		if !slices.Contains(coachingKinds, kind) {
			v.problem(TypeLiteral, "must be "+oneOf(coachingKinds)+", not "+quote(kind), "specialized_coaching", i)
		}
	}
	coaching := info.Capabilities[CapabilityCoaching]
	if coaching && info.CoachingUnavailableReason != "" {
		v.problem(TypeValue, "must be absent while coaching is available", "coaching_unavailable_reason")
	}
	if coaching && info.CoachingSessionVersion == "" {
		v.problem(TypeValue, `must be "1" when coaching is available`, "coaching_session_version")
	}
	if !coaching && info.CoachingSessionVersion != "" {
		v.problem(TypeValue, "must be absent when coaching is not available", "coaching_session_version")
	}
	if !coaching && len(info.SpecializedCoaching) > 0 {
		v.problem(TypeValue, "must be empty when coaching is not available", "specialized_coaching")
	}
	return v.err()
}

// AppendJSON appends the information; capabilities are sorted by name.
func (info *AgentInfo) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"protocol_version":`...)
	dst = appendString(dst, info.ProtocolVersion)
	dst = append(dst, `,"agent_id":`...)
	dst = appendString(dst, info.AgentID)
	dst = append(dst, `,"agent_version":`...)
	dst = appendString(dst, info.AgentVersion)
	dst = append(dst, `,"capabilities":{`...)
	for i, name := range slices.Sorted(maps.Keys(info.Capabilities)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, name)
		dst = appendBool(dst, `:`, info.Capabilities[name])
	}
	dst = append(dst, `},"specialized_coaching":`...)
	dst = appendList(dst, info.SpecializedCoaching, func(kind string, dst []byte) []byte { return appendString(dst, kind) })
	dst = appendBool(dst, `,"coaching_resume":`, info.CoachingResume)
	dst = appendOptionalString(dst, `,"coaching_session_version":`, info.CoachingSessionVersion)
	dst = appendOptionalString(dst, `,"coaching_unavailable_reason":`, info.CoachingUnavailableReason)
	return append(dst, '}')
}
