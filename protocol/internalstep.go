package protocol

// Origins of an internal step.
const (
	OriginModel    = "model"
	OriginCoaching = "coaching"
)

// InternalStep is the record of one model call or applied correction that exporters read. The
// contract allows any objects in internal_steps.
type InternalStep struct {
	ID            string
	Component     string
	Origin        string // OriginModel (the default) or OriginCoaching
	FullPrompt    string
	InputElements Raw // an object, {} if absent
	OutputRaw     string
}

var internalStepFields = fields{
	required("id"), required("component"), optional("origin"), required("full_prompt"),
	optional("input_elements"), required("output_raw"),
}

// DecodeInternalStep decodes a record. Tests of agents hold their steps against it, as exporters
// do.
func DecodeInternalStep(raw Raw) (*InternalStep, error) {
	return decode(raw, func(d *decoder) *InternalStep {
		s := &InternalStep{Origin: OriginModel, InputElements: emptyObject}
		d.object(internalStepFields, func(name string) {
			switch name {
			case "id":
				s.ID, _ = d.string()
			case "component":
				s.Component, _ = d.string()
			case "origin":
				s.Origin = d.literal(OriginModel, OriginCoaching)
			case "full_prompt":
				s.FullPrompt, _ = d.string()
			case "input_elements":
				s.InputElements = d.rawObject()
			case "output_raw":
				s.OutputRaw, _ = d.string()
			}
		})
		return s
	})
}

// AppendJSON appends the record with all fields.
func (s *InternalStep) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, s.ID)
	dst = append(dst, `,"component":`...)
	dst = appendString(dst, s.Component)
	dst = append(dst, `,"origin":`...)
	dst = appendString(dst, s.Origin)
	dst = append(dst, `,"full_prompt":`...)
	dst = appendString(dst, s.FullPrompt)
	dst = append(dst, `,"input_elements":`...)
	dst = appendObject(s.InputElements, dst)
	dst = append(dst, `,"output_raw":`...)
	dst = appendString(dst, s.OutputRaw)
	return append(dst, '}')
}
