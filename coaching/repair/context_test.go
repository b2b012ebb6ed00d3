package repair

import (
	"strings"
	"testing"

	"agentd/protocol"
)

// with is the request in testdata/failure.json with other members.
func with(t *testing.T, members ...string) *Task {
	t.Helper()
	body := protocol.Raw(load(t, "failure").req.AppendJSON(nil))
	for i := 0; i < len(members); i += 2 {
		body = protocol.SetMember(body, members[i], protocol.Raw(members[i+1]))
	}
	return newTask(t, body)
}

func TestErrorsAndDiagnosesOfAnyShapeAreShown(t *testing.T) {
	for _, c := range []struct {
		rule    string
		task    *Task
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
			if text := c.task.Question(0).Messages[0].Text; !strings.Contains(text, c.want) {
				t.Errorf("%q is missing from\n%s", c.want, text)
			}
			diagnose, _ := protocol.Get(c.task.HumanRequest("h").Payload, "coach_diagnose")
			reason, _ := protocol.Get(diagnose, "reason")
			expected, _ := protocol.Get(diagnose, "expected_decision")
			if string(reason) != string(protocol.String(c.reason)) || string(expected) != string(protocol.String(c.expects)) {
				t.Errorf("a person is told %s", diagnose)
			}
		})
	}
}

func TestRejectionReasonIsWhatIsKnown(t *testing.T) {
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
		c.edit(task.req)
		reason, _ := protocol.Get(task.HumanRequest("h").Payload, "rejection_reason")
		if got, _ := protocol.Text(reason); got != c.want {
			t.Errorf("%s: got %q, want %q", c.rule, got, c.want)
		}
	}
}

// nested is a request whose tool has arguments of all types.
const nested = `{"run_id":"r","request_id":"c","kind":"format","stage":"g","target_step_id":1,"reinjection_points":[{"id":"p","input_step_id":1}],
	"trajectory":[{"id":1,"input":{"id":1,"instruction":{"type":"user","content":"x"},"tools":[{"name":"plan","description":"d","parameters":{"type":"object","properties":{
		"fast":{"type":"boolean"},"ways":{"type":"array","items":{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}},"any":{}}}}]},
		"internal_steps":[{"output_raw":""}]}]}`

func TestProblemsInsideOfArgumentsAreLocated(t *testing.T) {
	task := newTask(t, []byte(nested))
	found := task.Check("p", call("any robot", "plan", `{"fast":1,"ways":[{"to":"a"},{"to":2},{}]}`))
	want := "tool_calls[0].arguments.fast: got number, want boolean\n" +
		"tool_calls[0].arguments.ways[1].to: got number, want string\n" +
		`tool_calls[0].arguments.ways[2].to: the argument "to" is required`
	if got := found.All(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMendingWritesArgumentsInTheirTypes(t *testing.T) {
	for _, c := range []struct{ rule, raw, want string }{
		{"truth and lists in XML", `<function=plan><parameter=fast>True</parameter><parameter=ways>[{"to": "a"}]</parameter><parameter=any>{"x": 1}</parameter></function>`,
			`{"fast":true,"ways":[{"to":"a"}],"any":{"x":1}}`},
		{"a list as text in JSON", `{"name":"plan","arguments":{"ways":"[{\"to\": \"a\"}]","fast":"false"}}`, `{"ways":[{"to":"a"}],"fast":false}`},
		{"a text that may be anything stays text in JSON", `{"name":"plan","arguments":{"any":"{\"x\": 1}"}}`, `{"any":"{\"x\": 1}"}`},
		{"the usual robot where none is known", `{"name":"plan","arguments":{}}`, `{}`},
	} {
		task := newTask(t, []byte(nested))
		task.step().InternalSteps[0] = protocol.SetMember(task.step().InternalSteps[0], "output_raw", protocol.String(c.raw))
		v, err := task.WithoutModel()
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		if got, want := proposed(v), replaced("p", defaultRobot, "plan", c.want); got != want {
			t.Errorf("%s: got %s, want %s", c.rule, got, want)
		}
	}
}

func TestUsualRobotIsTheOneThatTheRunUses(t *testing.T) {
	body := strings.Replace(nested, `"internal_steps"`, `"output":{"tool_calls":[{"name":"plan","arguments":{},"target_robot_name":"rover"}]},"internal_steps"`, 1)
	v, err := newTask(t, []byte(body)).ReadHuman(`[{"name":"plan","arguments":{}}]`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := proposed(v), replaced("p", "rover", "plan", `{}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestClipKeepsBothEndsAndWholeCharacters(t *testing.T) {
	text := strings.Repeat("ä", 50) + strings.Repeat("ö", 50)
	got := clip(text, 31)
	if want := strings.Repeat("ä", 10) + " … [170 of 200 characters left out] … " + strings.Repeat("ö", 5); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
