package prompt

import (
	"strings"
	"testing"

	"agentd/coaching/repair/check"
	"agentd/protocol"
)

// with is the request in testdata/failure.json with other members.
func with(t *testing.T, members ...string) *check.Case {
	t.Helper()
	body := protocol.Raw(load(t, "failure").Request.AppendJSON(nil))
	for i := 0; i < len(members); i += 2 {
		body = protocol.SetMember(body, members[i], protocol.Raw(members[i+1]))
	}
	return newCase(t, body)
}

func TestErrorsAndDiagnosesOfAnyShapeAreShown(t *testing.T) {
	for _, c := range []struct {
		rule string
		task *check.Case
		want string // in the question and in a person's task
	}{
		{"the usual diagnosis", with(t, "diagnosis", `{"explanation":"why","expected_decision":"grasp"}`), "- Diagnosis: why\n- Expected decision: grasp\n"},
		{"a diagnosis that is text", with(t, "diagnosis", `"why"`), "- Diagnosis: why\n"},
		{"a diagnosis of another shape", with(t, "diagnosis", `{"cause":[1.50]}`), `- Diagnosis: {"cause": [1.50]}` + "\n"},
		{"an error that is text", with(t, "active_errors", `["late"]`, "diagnosis", "null"), "- Error: \"late\"\n"},
		{"an error without details", with(t, "active_errors", `[{"code":"c","description":"d"}]`, "diagnosis", "null"), "- Error: c: d\n"},
		{"more errors than there is room for", with(t, "active_errors", `["`+strings.Repeat("a", 20_000)+`","second","`+strings.Repeat("b", 20_000)+`"]`, "diagnosis", "null"), "more errors are left out"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			for _, text := range []string{Question(c.task, 0).Messages[0].Text, HumanRequest(c.task, "h").RenderedPrompt} {
				if !strings.Contains(text, c.want) {
					t.Errorf("%q is missing from\n%s", c.want, text)
				}
			}
		})
	}
}
