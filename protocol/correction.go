package protocol

// Kinds of corrections in extra_keys.coaching.
const (
	KindReplaceSay      = "replace_say"
	KindReplaceDecision = "replace_decision"
)

// Correction is the value of extra_keys.coaching: a *[ReplaceSay] or a *[ReplaceDecision].
type Correction interface {
	// Corrected returns the decision that replaces the model's.
	Corrected() AgentDecision
	AppendJSON(dst []byte) []byte
}

// ReplaceSay replaces the decision by a text.
type ReplaceSay struct {
	_    struct{} `wire:"kind,required,oneof=replace_say"`
	Text string   `wire:"text,required,nonempty"`
}

// ReplaceDecision replaces the decision by another one.
type ReplaceDecision struct {
	_        struct{}      `wire:"kind,required,oneof=replace_decision"`
	Decision AgentDecision `wire:"decision,required"`
}

// Corrected returns the decision to say the text.
func (r *ReplaceSay) Corrected() AgentDecision { return AgentDecision{Say: r.Text} }

// Corrected returns the decision.
func (r *ReplaceDecision) Corrected() AgentDecision { return r.Decision }

// CorrectionTo returns the correction to a decision: a replace_say for a text, a replace_decision for calls.
func CorrectionTo(d *AgentDecision) Correction {
	if len(d.ToolCalls) == 0 {
		return &ReplaceSay{Text: d.Say}
	}
	return &ReplaceDecision{Decision: *d}
}

// DecodeCorrection decodes a correction of either kind. The error is [Problems].
func DecodeCorrection(raw Raw) (Correction, error) {
	c, err := decode[eitherKind](raw, MaxDepth)
	if err != nil {
		return nil, err
	}
	return c.Correction, nil
}

// eitherKind decodes the type that the member kind names.
type eitherKind struct{ Correction }

func (c *eitherKind) read(d *decoder) {
	if d.kind() != '{' {
		d.mismatch(TypeDict, "an object")
		return
	}
	kind, present := Get(d.text, "kind")
	name, isText := Text(kind)
	switch name {
	case KindReplaceSay:
		c.Correction = readModel[ReplaceSay](d)
		return
	case KindReplaceDecision:
		c.Correction = readModel[ReplaceDecision](d)
		return
	}
	d.skip()
	kinds := oneOf([]string{KindReplaceSay, KindReplaceDecision})
	switch {
	case !present:
		d.problem(TypeMissing, `field "kind" is required: `+kinds, "kind")
	case !isText:
		d.problem(TypeString, "must be "+kinds, "kind")
	default:
		d.problem(TypeLiteral, "must be "+kinds+", not "+quote(name), "kind")
	}
}

// CallsOverSay removes the reply from a replace_decision that also has calls.
// MAGMA's stable packages let a person send both, and execute the calls.
func CallsOverSay(correction Raw) Raw {
	kind, _ := Get(correction, "kind")
	decision, _ := Get(correction, "decision")
	say, _ := Get(decision, "say")
	calls, _ := Get(decision, "tool_calls")
	if name, _ := Text(kind); name != KindReplaceDecision {
		return correction
	}
	if text, _ := Text(say); text == "" {
		return correction // also one of another type, which the decoder refuses
	}
	for range Elements(calls) {
		return SetMember(correction, "decision", DeleteMember(decision, "say"))
	}
	return correction
}
