package prompt

import (
	"strings"
	"testing"

	"agentd/coaching/repair"
	"agentd/protocol"
)

// with is the request in testdata/failure.json with other members.
func with(t *testing.T, members ...string) *repair.Case {
	t.Helper()
	body := protocol.Raw(load(t, "failure").Request.AppendJSON(nil))
	for i := 0; i < len(members); i += 2 {
		body = protocol.SetMember(body, members[i], protocol.Raw(members[i+1]))
	}
	return newCase(t, body)
}

func TestErrorsAndDiagnosesOfAnyShapeAreShown(t *testing.T) {
	for _, c := range []struct {
		rule    string
		task    *repair.Case
		want    string // in the question
		reason  string // in a person's coach_diagnose
		expects string
	}{
		{"the usual diagnosis", with(t, "diagnosis", `{"explanation":"why","expected_decision":"grasp"}`), "- Diagnosis: why\n- Expected decision: grasp\n", "why", "grasp"},
		{"a diagnosis that is text", with(t, "diagnosis", `"why"`), "- Diagnosis: why\n", "why", ""},
		{"a diagnosis of another shape", with(t, "diagnosis", `{"cause":[1.50]}`), `- Diagnosis: {"cause": [1.50]}` + "\n", `{"cause":[1.50]}`, ""},
		{"an error that is text", with(t, "active_errors", `["late"]`, "diagnosis", "null"), "- Error: \"late\"\n", "", ""},
		{"an error without details", with(t, "active_errors", `[{"code":"c","description":"d"}]`, "diagnosis", "null"), "- Error: c: d\n", "", ""},
		{"more errors than there is room for", with(t, "active_errors", `["`+strings.Repeat("a", 20_000)+`","second","`+strings.Repeat("b", 20_000)+`"]`, "diagnosis", "null"), "more errors are left out", "", ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if text := Question(c.task, 0).Messages[0].Text; !strings.Contains(text, c.want) {
				t.Errorf("%q is missing from\n%s", c.want, text)
			}
			diagnose, _ := protocol.Get(HumanRequest(c.task, "h").Payload, "coach_diagnose")
			reason, _ := protocol.Get(diagnose, "reason")
			expected, _ := protocol.Get(diagnose, "expected_decision")
			if string(reason) != string(protocol.String(c.reason)) || string(expected) != string(protocol.String(c.expects)) {
				t.Errorf("a person is told %s", diagnose)
			}
		})
	}
}

func TestRejectionReasonFallsBack(t *testing.T) {
	for _, c := range []struct {
		rule string
		edit func(*protocol.SpecializedCoachingRequest)
		want string
	}{
		{"the step's error", func(*protocol.SpecializedCoachingRequest) {}, "invalid_output (commander): the output has text beside tool calls; it must be one or the other"},
		{"else an active error", func(r *protocol.SpecializedCoachingRequest) {
			r.Trajectory[0].Error = nil
			r.ActiveErrors = []protocol.Raw{protocol.Raw(`7`), protocol.Raw(`{"code":"c","description":"d"}`)}
		}, "c: d"},
		{"else the diagnosis", func(r *protocol.SpecializedCoachingRequest) {
			r.Trajectory[0].Error, r.Diagnosis = nil, protocol.Raw(`"why"`)
		}, "why"},
	} {
		task := load(t, "format")
		c.edit(task.Request)
		reason, _ := protocol.Get(HumanRequest(task, "h").Payload, "rejection_reason")
		if got, _ := protocol.Text(reason); got != c.want {
			t.Errorf("%s: got %q, want %q", c.rule, got, c.want)
		}
	}
}
