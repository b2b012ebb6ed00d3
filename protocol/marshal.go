package protocol

// encoding/json writes the models as AppendJSON does, also inside other values. The receivers are
// values, so this includes models that are not addressable.

type appender interface{ AppendJSON(dst []byte) []byte }

func marshal(a appender) ([]byte, error) { return a.AppendJSON(nil), nil }

// MarshalJSON implements json.Marshaler.
func (r AgentRequest) MarshalJSON() ([]byte, error) { return marshal(&r) }

// MarshalJSON implements json.Marshaler.
func (in AgentInput) MarshalJSON() ([]byte, error) { return marshal(&in) }

// MarshalJSON implements json.Marshaler.
func (o AgentOutput) MarshalJSON() ([]byte, error) { return marshal(&o) }

// MarshalJSON implements json.Marshaler.
func (a AgentDecision) MarshalJSON() ([]byte, error) { return marshal(&a) }

// MarshalJSON implements json.Marshaler.
func (c ToolCall) MarshalJSON() ([]byte, error) { return marshal(&c) }

// MarshalJSON implements json.Marshaler.
func (e AgentError) MarshalJSON() ([]byte, error) { return marshal(&e) }

// MarshalJSON implements json.Marshaler.
func (s InternalStep) MarshalJSON() ([]byte, error) { return marshal(&s) }

// MarshalJSON implements json.Marshaler.
func (info AgentInfo) MarshalJSON() ([]byte, error) { return marshal(&info) }

// MarshalJSON implements json.Marshaler.
func (h AgentHealth) MarshalJSON() ([]byte, error) { return marshal(&h) }

// MarshalJSON implements json.Marshaler.
func (c CoachingSessionConfig) MarshalJSON() ([]byte, error) { return marshal(&c) }

// MarshalJSON implements json.Marshaler.
func (b CoachingBackend) MarshalJSON() ([]byte, error) { return marshal(&b) }

// MarshalJSON implements json.Marshaler.
func (r SpecializedCoachingRequest) MarshalJSON() ([]byte, error) { return marshal(&r) }

// MarshalJSON implements json.Marshaler.
func (s CoachingStage) MarshalJSON() ([]byte, error) { return marshal(&s) }

// MarshalJSON implements json.Marshaler.
func (s TrajectoryStep) MarshalJSON() ([]byte, error) { return marshal(&s) }

// MarshalJSON implements json.Marshaler.
func (p ReinjectionPoint) MarshalJSON() ([]byte, error) { return marshal(&p) }

// MarshalJSON implements json.Marshaler.
func (e CoachingError) MarshalJSON() ([]byte, error) { return marshal(&e) }

// MarshalJSON implements json.Marshaler.
func (c CoachingDiagnosis) MarshalJSON() ([]byte, error) { return marshal(&c) }

// MarshalJSON implements json.Marshaler.
func (r SpecializedCoachingResponse) MarshalJSON() ([]byte, error) { return marshal(&r) }

// MarshalJSON implements json.Marshaler.
func (p CoachingProposal) MarshalJSON() ([]byte, error) { return marshal(&p) }

// MarshalJSON implements json.Marshaler.
func (l CoachingLog) MarshalJSON() ([]byte, error) { return marshal(&l) }

// MarshalJSON implements json.Marshaler.
func (r ReplaceSay) MarshalJSON() ([]byte, error) { return marshal(&r) }

// MarshalJSON implements json.Marshaler.
func (r ReplaceDecision) MarshalJSON() ([]byte, error) { return marshal(&r) }

// MarshalJSON implements json.Marshaler.
func (r HumanCoachingRequest) MarshalJSON() ([]byte, error) { return marshal(&r) }

// MarshalJSON implements json.Marshaler.
func (r HumanCoachingResponse) MarshalJSON() ([]byte, error) { return marshal(&r) }
