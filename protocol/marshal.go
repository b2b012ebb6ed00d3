package protocol

// The models marshal through encoding/json as AppendJSON writes them, so that a
// model inside of something else keeps its field names. The receivers are
// values, so that a model that is not addressable does too.

type appender interface{ AppendJSON(dst []byte) []byte }

func marshal(a appender) ([]byte, error) { return a.AppendJSON(nil), nil }

// MarshalJSON is AppendJSON to a new slice.
func (m AgentRequest) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m AgentInput) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m AgentOutput) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m AgentDecision) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m ToolCall) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m AgentError) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m InternalStep) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m AgentInfo) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m AgentHealth) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m CoachingSessionConfig) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m CoachingBackend) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m SpecializedCoachingRequest) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m CoachingStage) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m TrajectoryStep) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m ReinjectionPoint) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m CoachingError) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m CoachingDiagnosis) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m SpecializedCoachingResponse) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m CoachingProposal) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m CoachingLog) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m ReplaceSay) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m ReplaceDecision) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m HumanCoachingRequest) MarshalJSON() ([]byte, error) { return marshal(&m) }

// MarshalJSON is AppendJSON to a new slice.
func (m HumanCoachingResponse) MarshalJSON() ([]byte, error) { return marshal(&m) }
