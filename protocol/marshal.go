package protocol

// The models marshal through encoding/json as AppendJSON writes them, so that a
// model inside of something else keeps its field names. The receivers are
// values, so that a model that is not addressable does too.

type appender interface{ AppendJSON(dst []byte) []byte }

func marshal(a appender) ([]byte, error) { return a.AppendJSON(nil), nil }

// MarshalJSON is AppendJSON to a new slice.
func (r AgentRequest) MarshalJSON() ([]byte, error) { return marshal(&r) }

// MarshalJSON is AppendJSON to a new slice.
func (in AgentInput) MarshalJSON() ([]byte, error) { return marshal(&in) }

// MarshalJSON is AppendJSON to a new slice.
func (o AgentOutput) MarshalJSON() ([]byte, error) { return marshal(&o) }

// MarshalJSON is AppendJSON to a new slice.
func (a AgentDecision) MarshalJSON() ([]byte, error) { return marshal(&a) }

// MarshalJSON is AppendJSON to a new slice.
func (c ToolCall) MarshalJSON() ([]byte, error) { return marshal(&c) }

// MarshalJSON is AppendJSON to a new slice.
func (e AgentError) MarshalJSON() ([]byte, error) { return marshal(&e) }

// MarshalJSON is AppendJSON to a new slice.
func (s InternalStep) MarshalJSON() ([]byte, error) { return marshal(&s) }

// MarshalJSON is AppendJSON to a new slice.
func (info AgentInfo) MarshalJSON() ([]byte, error) { return marshal(&info) }

// MarshalJSON is AppendJSON to a new slice.
func (h AgentHealth) MarshalJSON() ([]byte, error) { return marshal(&h) }

// MarshalJSON is AppendJSON to a new slice.
func (c CoachingSessionConfig) MarshalJSON() ([]byte, error) { return marshal(&c) }

// MarshalJSON is AppendJSON to a new slice.
func (b CoachingBackend) MarshalJSON() ([]byte, error) { return marshal(&b) }

// MarshalJSON is AppendJSON to a new slice.
func (r SpecializedCoachingRequest) MarshalJSON() ([]byte, error) { return marshal(&r) }

// MarshalJSON is AppendJSON to a new slice.
func (s CoachingStage) MarshalJSON() ([]byte, error) { return marshal(&s) }

// MarshalJSON is AppendJSON to a new slice.
func (s TrajectoryStep) MarshalJSON() ([]byte, error) { return marshal(&s) }

// MarshalJSON is AppendJSON to a new slice.
func (p ReinjectionPoint) MarshalJSON() ([]byte, error) { return marshal(&p) }

// MarshalJSON is AppendJSON to a new slice.
func (e CoachingError) MarshalJSON() ([]byte, error) { return marshal(&e) }

// MarshalJSON is AppendJSON to a new slice.
func (c CoachingDiagnosis) MarshalJSON() ([]byte, error) { return marshal(&c) }

// MarshalJSON is AppendJSON to a new slice.
func (r SpecializedCoachingResponse) MarshalJSON() ([]byte, error) { return marshal(&r) }

// MarshalJSON is AppendJSON to a new slice.
func (p CoachingProposal) MarshalJSON() ([]byte, error) { return marshal(&p) }

// MarshalJSON is AppendJSON to a new slice.
func (l CoachingLog) MarshalJSON() ([]byte, error) { return marshal(&l) }

// MarshalJSON is AppendJSON to a new slice.
func (r ReplaceSay) MarshalJSON() ([]byte, error) { return marshal(&r) }

// MarshalJSON is AppendJSON to a new slice.
func (r ReplaceDecision) MarshalJSON() ([]byte, error) { return marshal(&r) }

// MarshalJSON is AppendJSON to a new slice.
func (r HumanCoachingRequest) MarshalJSON() ([]byte, error) { return marshal(&r) }

// MarshalJSON is AppendJSON to a new slice.
func (r HumanCoachingResponse) MarshalJSON() ([]byte, error) { return marshal(&r) }
