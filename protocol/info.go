package protocol

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
	HealthPaused   = "paused" // after POST /v1/pause: requests wait
	HealthFailed   = "failed" // the process must be restarted
	HealthStuck    = "stuck"  // prefix, as in "stuck: context 0": an engine's step does not return
)

// AgentHealth is the body of GET /health.
type AgentHealth struct {
	Status string `wire:"status,required,oneof=ready|loading|draining|paused|failed|stuck: *"`
	Asking int    `wire:"asking,least=0"` // number of decisions that wait for a coach's choice
}

// AgentInfo is the body of GET /v1/info.
type AgentInfo struct {
	ProtocolVersion     string          `wire:"protocol_version,always"`
	AgentID             string          `wire:"agent_id,required"`
	AgentVersion        string          `wire:"agent_version,required"`
	Capabilities        map[string]bool `wire:"capabilities,required"`
	SpecializedCoaching []string        `wire:"specialized_coaching,always,oneof=failure|suboptimal|format"`
	CoachingResume      bool            `wire:"coaching_resume,always"` // POST /v1/responses applies replace_say
	// CoachingSessionVersion is "" if the session protocol is not implemented.
	CoachingSessionVersion string `wire:"coaching_session_version,nullable"`
	// CoachingUnavailableReason is "" unless coaching is off.
	CoachingUnavailableReason string `wire:"coaching_unavailable_reason,nullable"`
}

func (info *AgentInfo) setDefaults() { info.ProtocolVersion = Version }

// DecodeAgentHealth decodes the body of GET /health, of a 200 or a 503.
func DecodeAgentHealth(body []byte) (*AgentHealth, error) {
	return decode[AgentHealth](body, MaxDepth)
}

// DecodeAgentInfo decodes the body of GET /v1/info; [AgentInfo.Validate] checks for contradictions.
func DecodeAgentInfo(body []byte) (*AgentInfo, error) { return decode[AgentInfo](body, MaxDepth) }

// Validate checks that capabilities and coaching fields agree. The error is [Problems].
func (info *AgentInfo) Validate() error {
	var v validator
	v.nonempty(info.ProtocolVersion, "protocol_version")
	v.nonempty(info.AgentID, "agent_id")
	v.nonempty(info.AgentVersion, "agent_version")
	if _, said := info.Capabilities[CapabilityInference]; !said {
		v.problem(TypeMissing, `capability "inference" must be advertised, true or false`, "capabilities", CapabilityInference)
	}
	for i, kind := range info.SpecializedCoaching {
		v.literal(kind, coachingKinds, "specialized_coaching", i)
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
