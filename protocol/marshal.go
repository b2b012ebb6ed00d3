//nolint:revive // one comment is of all these methods
package protocol

// AppendJSON of a model appends compact JSON; with MarshalJSON encoding/json writes the same.

func (r *AgentRequest) AppendJSON(dst []byte) []byte                { return appendValue(dst, r) }
func (in *AgentInput) AppendJSON(dst []byte) []byte                 { return appendValue(dst, in) }
func (o *AgentOutput) AppendJSON(dst []byte) []byte                 { return appendValue(dst, o) }
func (o AgentOutputs) AppendJSON(dst []byte) []byte                 { return appendValue(dst, &o) }
func (a *AgentDecision) AppendJSON(dst []byte) []byte               { return appendValue(dst, a) }
func (c *ToolCall) AppendJSON(dst []byte) []byte                    { return appendValue(dst, c) }
func (e *AgentError) AppendJSON(dst []byte) []byte                  { return appendValue(dst, e) }
func (s *InternalStep) AppendJSON(dst []byte) []byte                { return appendValue(dst, s) }
func (info *AgentInfo) AppendJSON(dst []byte) []byte                { return appendValue(dst, info) }
func (h *AgentHealth) AppendJSON(dst []byte) []byte                 { return appendValue(dst, h) }
func (c *CoachingSessionConfig) AppendJSON(dst []byte) []byte       { return appendValue(dst, c) }
func (b *CoachingBackend) AppendJSON(dst []byte) []byte             { return appendValue(dst, b) }
func (r *SpecializedCoachingRequest) AppendJSON(dst []byte) []byte  { return appendValue(dst, r) }
func (s *CoachingStage) AppendJSON(dst []byte) []byte               { return appendValue(dst, s) }
func (s *TrajectoryStep) AppendJSON(dst []byte) []byte              { return appendValue(dst, s) }
func (p *ReinjectionPoint) AppendJSON(dst []byte) []byte            { return appendValue(dst, p) }
func (e *CoachingError) AppendJSON(dst []byte) []byte               { return appendValue(dst, e) }
func (c *CoachingDiagnosis) AppendJSON(dst []byte) []byte           { return appendValue(dst, c) }
func (r *SpecializedCoachingResponse) AppendJSON(dst []byte) []byte { return appendValue(dst, r) }
func (p *CoachingProposal) AppendJSON(dst []byte) []byte            { return appendValue(dst, p) }
func (l *CoachingLog) AppendJSON(dst []byte) []byte                 { return appendValue(dst, l) }
func (r *ReplaceSay) AppendJSON(dst []byte) []byte                  { return appendValue(dst, r) }
func (r *ReplaceDecision) AppendJSON(dst []byte) []byte             { return appendValue(dst, r) }
func (r *HumanCoachingRequest) AppendJSON(dst []byte) []byte        { return appendValue(dst, r) }
func (r *HumanCoachingResponse) AppendJSON(dst []byte) []byte       { return appendValue(dst, r) }

func (r AgentRequest) MarshalJSON() ([]byte, error)                { return r.AppendJSON(nil), nil }
func (in AgentInput) MarshalJSON() ([]byte, error)                 { return in.AppendJSON(nil), nil }
func (o AgentOutput) MarshalJSON() ([]byte, error)                 { return o.AppendJSON(nil), nil }
func (a AgentDecision) MarshalJSON() ([]byte, error)               { return a.AppendJSON(nil), nil }
func (c ToolCall) MarshalJSON() ([]byte, error)                    { return c.AppendJSON(nil), nil }
func (e AgentError) MarshalJSON() ([]byte, error)                  { return e.AppendJSON(nil), nil }
func (s InternalStep) MarshalJSON() ([]byte, error)                { return s.AppendJSON(nil), nil }
func (info AgentInfo) MarshalJSON() ([]byte, error)                { return info.AppendJSON(nil), nil }
func (h AgentHealth) MarshalJSON() ([]byte, error)                 { return h.AppendJSON(nil), nil }
func (c CoachingSessionConfig) MarshalJSON() ([]byte, error)       { return c.AppendJSON(nil), nil }
func (b CoachingBackend) MarshalJSON() ([]byte, error)             { return b.AppendJSON(nil), nil }
func (r SpecializedCoachingRequest) MarshalJSON() ([]byte, error)  { return r.AppendJSON(nil), nil }
func (s CoachingStage) MarshalJSON() ([]byte, error)               { return s.AppendJSON(nil), nil }
func (s TrajectoryStep) MarshalJSON() ([]byte, error)              { return s.AppendJSON(nil), nil }
func (p ReinjectionPoint) MarshalJSON() ([]byte, error)            { return p.AppendJSON(nil), nil }
func (e CoachingError) MarshalJSON() ([]byte, error)               { return e.AppendJSON(nil), nil }
func (c CoachingDiagnosis) MarshalJSON() ([]byte, error)           { return c.AppendJSON(nil), nil }
func (r SpecializedCoachingResponse) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }
func (p CoachingProposal) MarshalJSON() ([]byte, error)            { return p.AppendJSON(nil), nil }
func (l CoachingLog) MarshalJSON() ([]byte, error)                 { return l.AppendJSON(nil), nil }
func (r ReplaceSay) MarshalJSON() ([]byte, error)                  { return r.AppendJSON(nil), nil }
func (r ReplaceDecision) MarshalJSON() ([]byte, error)             { return r.AppendJSON(nil), nil }
func (r HumanCoachingRequest) MarshalJSON() ([]byte, error)        { return r.AppendJSON(nil), nil }
func (r HumanCoachingResponse) MarshalJSON() ([]byte, error)       { return r.AppendJSON(nil), nil }
