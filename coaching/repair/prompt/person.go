package prompt

import (
	"strings"

	"agentd/agent/tools"
	"agentd/coaching/repair/check"
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

// HumanRequest is the task for a person, with its id. In its payload coaching_request is the whole
// request, unless the task would become too long or too deeply nested for its reader.
func HumanRequest(c *check.Case, id string) *protocol.HumanCoachingRequest {
	t := request{c}
	payload := protocol.Raw("{}")
	if whole := protocol.Raw(t.Request.AppendJSON(nil)); len(whole) <= maxPayloadRequest && tools.Depth(whole) <= maxPayloadDepth {
		payload = protocol.AppendMember(nil, "coaching_request", whole)
	}
	return &protocol.HumanCoachingRequest{
		RequestID:      id,
		PayloadID:      t.Request.TargetStepID,
		PayloadType:    payloadTypes[t.Request.Kind],
		Payload:        payload,
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

func texts(elements []string) protocol.Raw {
	quoted := make([]protocol.Raw, len(elements))
	for i, e := range elements {
		quoted[i] = protocol.String(e)
	}
	return protocol.AppendElements(nil, quoted...)
}
