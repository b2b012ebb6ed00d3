package repair

import (
	"slices"
	"strconv"
	"strings"

	"agentd/agent/memory"
	"agentd/protocol"
)

// Types of payloads, as the pages of the first implementation know them.
var payloadTypes = map[string]string{
	protocol.CoachingFailure:    "FailureFixPayload",
	protocol.CoachingSuboptimal: "SuboptimalFixPayload",
	protocol.CoachingFormat:     "FormatFixPayload",
}

// outputRules say how a person's answer is written.
const outputRules = `Write one JSON object: {"say": "...", "action": {}} for a text, {"say": "", "action": {"robot": {"name": "tool", "arguments": {}}}} for a call, with "action" a list of such objects for several calls of one robot. ` +
	`{"say": "...", "tool_calls": [{"name": "...", "arguments": {}, "target_robot_name": "..."}]} is read too. ` +
	`Add "reinjection_point_id" to say where the decision belongs; without it the decision is proposed at every point where it is valid.`

// outputFormat is the shape of a person's answer.
const outputFormat = `{"say":"string","action":{"robot":{"name":"tool","arguments":{}}},"reinjection_point_id":"string, may be left out"}`

// HumanRequest is the task for a person, with the id of the human request. Its
// payload has the keys that pages for the first implementation show, and under
// coaching_request the whole request as it came, unless that is nested too deep
// to travel inside of another body.
func (t *Task) HumanRequest(id string) *protocol.HumanCoachingRequest {
	return &protocol.HumanCoachingRequest{
		RequestID:      id,
		PayloadID:      t.req.TargetStepID,
		PayloadType:    payloadTypes[t.req.Kind],
		Payload:        t.payload(),
		RenderedPrompt: t.forPerson(),
	}
}

// forPerson is the request as Markdown.
func (t *Task) forPerson() string {
	points := t.listedPoints()
	var b strings.Builder
	b.WriteString(map[string]string{
		protocol.CoachingFailure:    "A step of the agent failed. Choose the point where the cause lies, and give the decision that would have been right there.\n\n",
		protocol.CoachingSuboptimal: "A step of the agent was not its best. Give the decision that would have been better.\n\n",
		protocol.CoachingFormat:     "The model wrote something that is no valid decision. Write down the decision that it meant.\n\n",
	}[t.req.Kind])
	b.WriteString("Decide only from what the agent could know at that point: one text, or one or more tool calls that can start together. Skip the task when no listed point allows a correction.\n\n")
	end := "\n# Your answer\n\n" + outputRules + "\n"
	b.WriteString(t.describe(points, DefaultBudget-b.Len()-len(end)))
	b.WriteString(end)
	return b.String()
}

// object builds a JSON object member by member.
type object struct{ raw []byte }

func (o *object) add(name string, v protocol.Raw) {
	if len(o.raw) > 0 {
		o.raw = append(o.raw, ',')
	}
	o.raw = append(append(o.raw, protocol.String(name)...), ':')
	o.raw = append(o.raw, v...)
}

// addWithin adds a value unless it is longer or nested deeper than readers of the
// whole would take.
func (o *object) addWithin(length, levels int, name string, v protocol.Raw) {
	if len(v) <= length && nesting(v) <= levels {
		o.add(name, v)
	}
}

// copy adds a part of the request that is nested no deeper here than there.
func (o *object) copy(name string, v protocol.Raw) {
	o.addWithin(maxPayloadMember, maxPayloadDepth, name, v)
}

func (o *object) text(name, s string) { o.add(name, protocol.String(clip(s, maxPayloadMember))) }

func (o *object) json() protocol.Raw { return append(append([]byte{'{'}, o.raw...), '}') }

func list(elements []protocol.Raw) protocol.Raw { return protocol.AppendElements(nil, elements...) }

func texts(elements []string) protocol.Raw {
	quoted := make([]protocol.Raw, len(elements))
	for i, e := range elements {
		quoted[i] = protocol.String(e)
	}
	return list(quoted)
}

// payload has the keys that every kind shares, those of its kind, and the
// request.
func (t *Task) payload() protocol.Raw {
	input := &t.step().Input
	m := readMemory(input)
	var o object
	o.text("stage_goal", t.req.Stage.Goal)
	o.text("task_coaching_hint", t.req.Stage.Hint)
	o.add("trajectory_steps", list(t.payloadSteps()))
	o.copy("task_attributes", orEmpty(input.Attributes))
	o.copy("tools_api", list(input.Tools))
	o.copy("constraint_list", texts(m.Rules))
	if len(t.req.ActiveErrors) > 0 {
		o.copy("active_errors", list(t.req.ActiveErrors))
	}
	if !empty(t.req.AdditionalInfo) {
		o.copy("additional_info", t.req.AdditionalInfo)
	}
	reason, expected := t.diagnosis()
	switch t.req.Kind {
	case protocol.CoachingFailure:
		o.copy("bad_answer", t.badAnswer())
		var diagnose object
		diagnose.text("reason", reason)
		diagnose.text("expected_decision", expected)
		o.add("coach_diagnose", diagnose.json())
	case protocol.CoachingSuboptimal:
		o.copy("bad_answer", t.badAnswer())
		var diagnose object
		diagnose.text("reason", reason)
		if expected != "" {
			diagnose.text("expected_decision", expected)
		}
		o.add("diagnosis", diagnose.json())
	case protocol.CoachingFormat:
		rejected, _ := t.rawOutput()
		o.text("rejected_answer", rejected)
		o.text("rejection_reason", t.rejectionReason(reason))
		o.add("desired_output_format", protocol.Raw(outputFormat))
		o.text("output_format_rules", outputRules)
	}
	o.addWithin(maxPayloadRequest, maxPayloadDepth, "coaching_request", t.req.AppendJSON(nil))
	return o.json()
}

// payloadSteps are the last steps without their memories, which grow from step
// to step.
func (t *Task) payloadSteps() []protocol.Raw {
	var list []protocol.Raw
	room := maxPayloadMember
	for i := len(t.req.Trajectory) - 1; i >= 0 && len(list) < maxPayloadSteps; i-- {
		step := payloadStep(&t.req.Trajectory[i])
		if room -= len(step); room < 0 {
			break
		}
		list = append(list, step)
	}
	slices.Reverse(list)
	return list
}

func payloadStep(step *protocol.TrajectoryStep) protocol.Raw {
	var o, instruction object
	o.add("id", protocol.Raw(strconv.FormatInt(step.ID, 10)))
	instruction.text("type", step.Input.Instruction.Type)
	instruction.text("content", step.Input.Instruction.Content)
	o.add("instruction", instruction.json())
	if step.Output != nil {
		if output := step.Output.AppendJSON(nil); nesting(output) <= maxPayloadDepth-2 {
			o.add("output", output)
		}
	}
	if step.Error != nil {
		o.add("error", step.Error.AppendJSON(nil))
	}
	if !empty(step.Execution) {
		o.addWithin(maxPayloadMember, maxPayloadDepth-2, "execution", step.Execution)
	}
	return o.json()
}

// badAnswer is the target step's decision in the form of a memory's entry, or
// its error.
func (t *Task) badAnswer() protocol.Raw {
	step := t.step()
	if step.Output == nil {
		raw, _ := t.rawOutput()
		return protocol.String(raw)
	}
	return memory.AppendDecision(nil, step.Output.Say, calls(step.Output))
}

// diagnosis is the reason and the expected decision of the request's diagnosis,
// of another shape as it came.
func (t *Task) diagnosis() (reason, expected string) {
	if empty(t.req.Diagnosis) {
		return "", ""
	}
	if d, err := protocol.DecodeCoachingDiagnosis(t.req.Diagnosis); err == nil {
		return d.Explanation, d.ExpectedDecision
	}
	if text, ok := protocol.Text(t.req.Diagnosis); ok {
		return text, ""
	}
	return string(t.req.Diagnosis), ""
}

// rejectionReason is the target step's error, else what else is known.
func (t *Task) rejectionReason(diagnosis string) string {
	if e := t.step().Error; e != nil {
		return agentErrorText(e)
	}
	for _, raw := range t.req.ActiveErrors {
		if e, err := protocol.DecodeCoachingError(raw); err == nil {
			return e.Code + ": " + e.Description
		}
	}
	return diagnosis
}

func orEmpty(v protocol.Raw) protocol.Raw {
	if len(v) == 0 {
		return protocol.Raw("{}")
	}
	return v
}

// nesting is how deep valid JSON is nested.
func nesting(v []byte) int {
	deepest, depth, quoted := 0, 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
