package protocol

// encoding/json writes the models as AppendJSON does, also inside other values. The receivers of MarshalJSON are
// values, so this includes models that are not addressable.

// AppendJSON appends compact JSON.
func (r *AgentRequest) AppendJSON(dst []byte) []byte { return appendValue(dst, r) }

// MarshalJSON implements json.Marshaler.
func (r AgentRequest) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (in *AgentInput) AppendJSON(dst []byte) []byte { return appendValue(dst, in) }

// MarshalJSON implements json.Marshaler.
func (in AgentInput) MarshalJSON() ([]byte, error) { return in.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (o *AgentOutput) AppendJSON(dst []byte) []byte { return appendValue(dst, o) }

// MarshalJSON implements json.Marshaler.
func (o AgentOutput) MarshalJSON() ([]byte, error) { return o.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (a *AgentDecision) AppendJSON(dst []byte) []byte { return appendValue(dst, a) }

// MarshalJSON implements json.Marshaler.
func (a AgentDecision) MarshalJSON() ([]byte, error) { return a.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (c *ToolCall) AppendJSON(dst []byte) []byte { return appendValue(dst, c) }

// MarshalJSON implements json.Marshaler.
func (c ToolCall) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (e *AgentError) AppendJSON(dst []byte) []byte { return appendValue(dst, e) }

// MarshalJSON implements json.Marshaler.
func (e AgentError) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (s *InternalStep) AppendJSON(dst []byte) []byte { return appendValue(dst, s) }

// MarshalJSON implements json.Marshaler.
func (s InternalStep) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (info *AgentInfo) AppendJSON(dst []byte) []byte { return appendValue(dst, info) }

// MarshalJSON implements json.Marshaler.
func (info AgentInfo) MarshalJSON() ([]byte, error) { return info.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (h *AgentHealth) AppendJSON(dst []byte) []byte { return appendValue(dst, h) }

// MarshalJSON implements json.Marshaler.
func (h AgentHealth) MarshalJSON() ([]byte, error) { return h.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (c *CoachingSessionConfig) AppendJSON(dst []byte) []byte { return appendValue(dst, c) }

// MarshalJSON implements json.Marshaler.
func (c CoachingSessionConfig) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (b *CoachingBackend) AppendJSON(dst []byte) []byte { return appendValue(dst, b) }

// MarshalJSON implements json.Marshaler.
func (b CoachingBackend) MarshalJSON() ([]byte, error) { return b.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (r *SpecializedCoachingRequest) AppendJSON(dst []byte) []byte { return appendValue(dst, r) }

// MarshalJSON implements json.Marshaler.
func (r SpecializedCoachingRequest) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (s *CoachingStage) AppendJSON(dst []byte) []byte { return appendValue(dst, s) }

// MarshalJSON implements json.Marshaler.
func (s CoachingStage) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (s *TrajectoryStep) AppendJSON(dst []byte) []byte { return appendValue(dst, s) }

// MarshalJSON implements json.Marshaler.
func (s TrajectoryStep) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (p *ReinjectionPoint) AppendJSON(dst []byte) []byte { return appendValue(dst, p) }

// MarshalJSON implements json.Marshaler.
func (p ReinjectionPoint) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (e *CoachingError) AppendJSON(dst []byte) []byte { return appendValue(dst, e) }

// MarshalJSON implements json.Marshaler.
func (e CoachingError) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (c *CoachingDiagnosis) AppendJSON(dst []byte) []byte { return appendValue(dst, c) }

// MarshalJSON implements json.Marshaler.
func (c CoachingDiagnosis) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (r *SpecializedCoachingResponse) AppendJSON(dst []byte) []byte { return appendValue(dst, r) }

// MarshalJSON implements json.Marshaler.
func (r SpecializedCoachingResponse) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (p *CoachingProposal) AppendJSON(dst []byte) []byte { return appendValue(dst, p) }

// MarshalJSON implements json.Marshaler.
func (p CoachingProposal) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (l *CoachingLog) AppendJSON(dst []byte) []byte { return appendValue(dst, l) }

// MarshalJSON implements json.Marshaler.
func (l CoachingLog) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (r *ReplaceSay) AppendJSON(dst []byte) []byte { return appendValue(dst, r) }

// MarshalJSON implements json.Marshaler.
func (r ReplaceSay) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (r *ReplaceDecision) AppendJSON(dst []byte) []byte { return appendValue(dst, r) }

// MarshalJSON implements json.Marshaler.
func (r ReplaceDecision) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (r *HumanCoachingRequest) AppendJSON(dst []byte) []byte { return appendValue(dst, r) }

// MarshalJSON implements json.Marshaler.
func (r HumanCoachingRequest) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// AppendJSON appends compact JSON.
func (r *HumanCoachingResponse) AppendJSON(dst []byte) []byte { return appendValue(dst, r) }

// MarshalJSON implements json.Marshaler.
func (r HumanCoachingResponse) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }
