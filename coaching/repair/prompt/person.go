package prompt

import (
	"slices"
	"strconv"
	"strings"

	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/coaching/internal/quote"
	"agentd/coaching/repair"
	"agentd/protocol"
)

// payloadTypes are the names that pages of the first implementation know.
var payloadTypes = map[string]string{
	protocol.CoachingFailure:    "FailureFixPayload",
	protocol.CoachingSuboptimal: "SuboptimalFixPayload",
	protocol.CoachingFormat:     "FormatFixPayload",
}

// outputRules say how a person writes the answer.
const outputRules = `Write one JSON object: {"say": "...", "action": {}} for a text, {"say": "", "action": {"robot": {"name": "tool", "arguments": {}}}} for a call, with "action" a list of such objects for several calls of one robot. ` +
	`{"say": "...", "tool_calls": [{"name": "...", "arguments": {}, "target_robot_name": "..."}]} is read too. ` +
	`Add "reinjection_point_id" to say where the decision belongs; without it the decision is proposed at every point where it is valid.`

// outputFormat is the shape of a person's answer.
const outputFormat = `{"say":"string","action":{"robot":{"name":"tool","arguments":{}}},"reinjection_point_id":"string, may be left out"}`

// HumanRequest is the task for a person, with its id. The payload has the keys that
// pages for the first implementation show. coaching_request holds the whole request,
// unless it is nested too deep for another body.
func HumanRequest(c *repair.Case, id string) *protocol.HumanCoachingRequest {
	t := request{c}
	return &protocol.HumanCoachingRequest{
		RequestID:      id,
		PayloadID:      t.Request.TargetStepID,
		PayloadType:    payloadTypes[t.Request.Kind],
		Payload:        t.payload(),
		RenderedPrompt: t.forPerson(),
	}
}

// forPerson is the request as Markdown.
func (t request) forPerson() string {
	points := t.listedPoints()
	var b strings.Builder
	b.WriteString(map[string]string{
		protocol.CoachingFailure:    "A step of the agent failed. Choose the point where the cause lies, and give the decision that would have been right there.\n\n",
		protocol.CoachingSuboptimal: "A step of the agent was not its best. Give the decision that would have been better.\n\n",
		protocol.CoachingFormat:     "The model wrote something that is no valid decision. Write down the decision that it meant.\n\n",
	}[t.Request.Kind])
	b.WriteString("Decide only from what the agent could know at that point: one text, or one or more tool calls that can start together. Skip the task when no listed point allows a correction.\n\n")
	end := "\n# Your answer\n\n" + outputRules + "\n"
	b.WriteString(t.describe(points, DefaultBudget-b.Len()-len(end)))
	b.WriteString(end)
	return b.String()
}

// object builds a JSON object member by member. nil is an empty one.
type object struct{ raw protocol.Raw }

func (o *object) add(name string, v protocol.Raw) { o.raw = protocol.AppendMember(o.raw, name, v) }

// addWithin adds a value unless it is longer or nested deeper than given.
func (o *object) addWithin(length, levels int, name string, v protocol.Raw) {
	if len(v) <= length && tools.Depth(v) <= levels {
		o.add(name, v)
	}
}

// copy adds a part of the request within the bounds of payload members.
func (o *object) copy(name string, v protocol.Raw) {
	o.addWithin(maxPayloadMember, maxPayloadDepth, name, v)
}

func (o *object) text(name, s string) { o.add(name, protocol.String(quote.Clip(s, maxPayloadMember))) }

// payload has the members of each kind, the members of its own kind, and the request.
func (t request) payload() protocol.Raw {
	input := &t.Step().Input
	m := readMemory(input)
	var o object
	o.text("stage_goal", t.Request.Stage.Goal)
	o.text("task_coaching_hint", t.Request.Stage.Hint)
	o.add("trajectory_steps", protocol.AppendElements(nil, t.payloadSteps()...))
	o.copy("task_attributes", input.Attributes)
	o.copy("tools_api", protocol.AppendElements(nil, input.Tools...))
	o.copy("constraint_list", texts(m.Rules))
	if len(t.Request.ActiveErrors) > 0 {
		o.copy("active_errors", protocol.AppendElements(nil, t.Request.ActiveErrors...))
	}
	if !empty(t.Request.AdditionalInfo) {
		o.copy("additional_info", t.Request.AdditionalInfo)
	}
	reason, expected := t.diagnosis()
	switch t.Request.Kind {
	case protocol.CoachingFailure, protocol.CoachingSuboptimal:
		o.copy("bad_answer", t.badAnswer())
		var diagnose object
		diagnose.text("reason", reason)
		name := map[string]string{protocol.CoachingFailure: "coach_diagnose", protocol.CoachingSuboptimal: "diagnosis"}[t.Request.Kind]
		if expected != "" || t.Request.Kind == protocol.CoachingFailure {
			diagnose.text("expected_decision", expected)
		}
		o.add(name, diagnose.raw)
	case protocol.CoachingFormat:
		rejected, _ := t.RawOutput()
		o.text("rejected_answer", rejected)
		o.text("rejection_reason", t.rejectionReason(reason))
		o.add("desired_output_format", protocol.Raw(outputFormat))
		o.text("output_format_rules", outputRules)
	}
	o.addWithin(maxPayloadRequest, maxPayloadDepth, "coaching_request", t.Request.AppendJSON(nil))
	return o.raw
}

// payloadSteps are the last steps without their memories, which grow with every step.
func (t request) payloadSteps() []protocol.Raw {
	var list []protocol.Raw
	left := maxPayloadMember
	for i := len(t.Request.Trajectory) - 1; i >= 0 && len(list) < maxPayloadSteps; i-- {
		step := payloadStep(&t.Request.Trajectory[i])
		if left -= len(step); left < 0 {
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
	o.add("instruction", instruction.raw)
	if step.Output != nil {
		if output := step.Output.AppendJSON(nil); tools.Depth(output) <= maxPayloadDepth-2 {
			o.add("output", output)
		}
	}
	if step.Error != nil {
		o.add("error", step.Error.AppendJSON(nil))
	}
	if !empty(step.Execution) {
		o.addWithin(maxPayloadMember, maxPayloadDepth-2, "execution", step.Execution)
	}
	return o.raw
}

// badAnswer is the target step's decision as a memory entry, or its raw output.
func (t request) badAnswer() protocol.Raw {
	step := t.Step()
	if step.Output == nil {
		raw, _ := t.RawOutput()
		return protocol.String(raw)
	}
	return memory.WriteDecision(step.Output.Say, step.Output.ToolCalls, false)
}

// diagnosis is the reason and expected decision of the request's diagnosis. One of
// another shape is returned as it is.
func (t request) diagnosis() (reason, expected string) {
	if empty(t.Request.Diagnosis) {
		return "", ""
	}
	if d, err := protocol.DecodeCoachingDiagnosis(t.Request.Diagnosis); err == nil {
		return d.Explanation, d.ExpectedDecision
	}
	if text, ok := protocol.Text(t.Request.Diagnosis); ok {
		return text, ""
	}
	return string(t.Request.Diagnosis), ""
}

// rejectionReason is the target step's error, else an active error, else the diagnosis.
func (t request) rejectionReason(diagnosis string) string {
	if e := t.Step().Error; e != nil {
		return agentErrorText(e)
	}
	for _, raw := range t.Request.ActiveErrors {
		if e, err := protocol.DecodeCoachingError(raw); err == nil {
			return e.Code + ": " + e.Description
		}
	}
	return diagnosis
}
