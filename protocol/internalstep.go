package protocol

// Origins of an internal step.
const (
	OriginModel    = "model"
	OriginCoaching = "coaching"
)

// InternalStep records a model call or an applied correction. Exporters of training data read it.
type InternalStep struct {
	ID            string `wire:"id,required"`
	Component     string `wire:"component,required"`
	Origin        string `wire:"origin,always,oneof=model|coaching"`
	FullPrompt    string `wire:"full_prompt,required"`
	InputElements Raw    `wire:"input_elements,always"`
	OutputRaw     string `wire:"output_raw,required"`
}

func (s *InternalStep) setDefaults() { s.Origin = OriginModel }

// DecodeInternalStep decodes a record. The error is [Problems].
func DecodeInternalStep(raw Raw) (*InternalStep, error) { return decode[InternalStep](raw, MaxDepth) }
