package repair

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent/tools"
	"agentd/coaching/repair/parse"
	"agentd/protocol"
)

// call makes a decision of one call.
func call(robot, name, arguments string) *protocol.AgentDecision {
	return &protocol.AgentDecision{ToolCalls: []protocol.ToolCall{{Name: name, Arguments: protocol.Raw(arguments), TargetRobotName: robot}}}
}

// summary is the type and place of each problem.
func summary(found protocol.Problems) (list []string) {
	for _, p := range found {
		text := p.String()
		list = append(list, p.Type+" "+text[:strings.Index(text, ": ")])
	}
	return list
}

func TestCheckLocatesProblems(t *testing.T) {
	failure, own := load(t, "failure"), load(t, "own_input")
	for _, c := range []struct {
		rule  string
		task  *Case
		point string
		d     *protocol.AgentDecision
		want  []string
	}{
		{"a call that fits", failure, "here", call("rover", "grasp", `{"object":"cup"}`), nil},
		{"a text", failure, "here", &protocol.AgentDecision{Say: "Which mug?"}, nil},
		{"a tool without arguments", failure, "first", call("arm_2", "look", `{}`), nil},
		{"arguments that a loose schema allows", failure, "first", call("arm_2", "go", `{"place":"study","fast":true}`), nil},
		{"a text where tools are unusable", own, "own", &protocol.AgentDecision{Say: "Again?"}, nil},
		{"no decision", failure, "here", nil, []string{"value_error "}},
		{"an empty decision", failure, "here", &protocol.AgentDecision{}, []string{"value_error "}},
		{"a blank text", failure, "here", &protocol.AgentDecision{Say: " \n"}, []string{"value_error "}},
		{"a text that is no UTF-8", failure, "here", &protocol.AgentDecision{Say: "a\xff"}, []string{"string_type say"}},
		{"a text beside calls", failure, "here", &protocol.AgentDecision{Say: "a", ToolCalls: call("rover", "look", `{}`).ToolCalls}, []string{"value_error "}},
		{"an unknown tool", failure, "here", call("rover", "Grasp", `{"object":"cup"}`), []string{"value_error tool_calls[0].name"}},
		{"an empty name", failure, "here", call("rover", "", `{}`), []string{"string_too_short tool_calls[0].name"}},
		{"an unknown robot", failure, "here", call("r2", "look", `{}`), []string{"value_error tool_calls[0].target_robot_name"}},
		{"no robot", failure, "here", call("", "look", `{}`), []string{"string_too_short tool_calls[0].target_robot_name"}},
		{"an unknown robot and wrong arguments", failure, "here", call("r2", "go", `{}`),
			[]string{"value_error tool_calls[0].target_robot_name", "missing tool_calls[0].arguments.place"}},
		{"arguments missing, unknown and of another type", failure, "here", call("rover", "grasp", `{"force":"2","x":1}`),
			[]string{"value_error tool_calls[0].arguments.force", "missing tool_calls[0].arguments.object", "extra_forbidden tool_calls[0].arguments.x"}},
		{"an argument out of bounds", failure, "here", call("rover", "grasp", `{"object":"cup","force":9}`), []string{"value_error tool_calls[0].arguments.force"}},
		{"a number beyond all numbers", failure, "here", call("rover", "grasp", `{"object":"cup","force":1e999999999}`), []string{"value_error tool_calls[0].arguments"}},
		{"arguments with a name twice", failure, "here", call("rover", "go", `{"place":"a","place":"b"}`), []string{"json_invalid tool_calls[0].arguments"}},
		{"arguments that are no object", failure, "here", call("rover", "go", `[]`), []string{"dict_type tool_calls[0].arguments"}},
		{"arguments that are no JSON", failure, "here", call("rover", "go", `{"place":}`), []string{"json_invalid tool_calls[0].arguments"}},
		{"arguments nested too deeply", failure, "here", call("rover", "go", `{"place":"a","x":`+strings.Repeat("[", 57)+strings.Repeat("]", 57)+`}`), []string{"value_error tool_calls[0].arguments"}},
		{"a call where tools are unusable", own, "own", call("rover", "look", `{}`), []string{"value_error tool_calls"}},
		{"more calls than one decision may have", failure, "here", &protocol.AgentDecision{ToolCalls: make([]protocol.ToolCall, parse.MaxCalls+1)}, []string{"too_long tool_calls"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			found := c.task.Check(c.point, c.d)
			if diff := cmp.Diff(c.want, summary(found)); diff != "" {
				t.Errorf("problems (-want +got):\n%s\n%s", diff, found.All())
			}
		})
	}
}

func TestCheckNamesKnownAndMeant(t *testing.T) {
	task := load(t, "failure")
	for _, c := range []struct {
		d    *protocol.AgentDecision
		want string
	}{
		{call("rover", "Grasp", `{}`), `tool_calls[0].name: the tool "Grasp" is unknown; known are "go", "grasp", "look"; did you mean "grasp"?`},
		{call("Arm 2", "look", `{}`), `tool_calls[0].target_robot_name: the robot "Arm 2" is unknown; known are "rover", "arm_2"; did you mean "arm_2"?`},
		{call("rover", "grasp", `{"object":"cup","hand":1}`), `tool_calls[0].arguments.hand: there is no such argument; known are "object", "force"`},
		{call("rover", "go", `{}`), `tool_calls[0].arguments.place: the argument "place" is required`},
	} {
		if got := task.Check("here", c.d).All(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestCheckBoundsItsProblems(t *testing.T) {
	d := new(protocol.AgentDecision)
	for range parse.MaxCalls {
		d.ToolCalls = append(d.ToolCalls, call("r2", "go", `{}`).ToolCalls...)
	}
	if got := len(load(t, "failure").Check("here", d)); got != maxProblems {
		t.Errorf("got %d problems, want %d", got, maxProblems)
	}
}

func TestProposalsAreWhatTheAgentApplies(t *testing.T) {
	for _, c := range []struct {
		d    *protocol.AgentDecision
		want string
	}{
		{&protocol.AgentDecision{Say: "Which mug?"}, `{"kind":"replace_say","text":"Which mug?"}`},
		{call("rover", "grasp", `{"object":"cup","force":1.0}`),
			`{"kind":"replace_decision","decision":{"say":"","tool_calls":[{"name":"grasp","arguments":{"object":"cup","force":1.0},"target_robot_name":"rover"}]}}`},
	} {
		if got := protocol.CorrectionTo(c.d).AppendJSON(nil); string(got) != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestPointsHaveTheirInputs(t *testing.T) {
	var got []string
	for _, name := range []string{"failure", "own_input"} {
		for _, p := range load(t, name).Points {
			step := "own"
			if p.StepID != nil {
				step = fmt.Sprint("step ", *p.StepID)
			}
			kinds := "no tools: " + p.ErrorText(p.ToolsErr)
			if p.Tools != nil {
				kinds = strings.Join(p.Tools.Names(), " ")
			}
			got = append(got, strings.Join([]string{p.ID, step, p.Input.Instruction.Type, kinds, strings.Join(p.Robots, " ")}, " | "))
		}
	}
	want := []string{
		"first | step 0 | user | go grasp look | rover arm_2",
		"here | step 1 | env | go grasp look | rover arm_2",
		"own | own | user | no tools: tools[0]: it needs a name, a nonempty string | ",
		"again | own | env | go grasp look | rover arm_2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}

func TestSharedToolsAreCompiledOnce(t *testing.T) {
	points := load(t, "failure").Points
	if points[0].Tools != points[1].Tools {
		t.Error("two points with the same tools and robots have sets of their own")
	}
}

func TestTooManySetsOfToolsAreUnusable(t *testing.T) {
	var points []string
	for i := range maxToolSets + 2 {
		points = append(points, fmt.Sprintf(`{"id":"p%d","input":{"id":1,"instruction":{"type":"user","content":"x"},"tools":[{"name":"t%d"}]}}`, i, i))
	}
	task := newCase(t, []byte(`{"run_id":"r","request_id":"c","kind":"failure","stage":"g","target_step_id":1,
		"trajectory":[{"id":1,"input":{"id":1,"instruction":{"type":"user","content":"x"}}}],"reinjection_points":[`+strings.Join(points, ",")+`]}`))
	for i, p := range task.Points {
		if usable := p.ToolsErr == nil; usable != (i < maxToolSets) || usable != (p.Tools != nil) {
			t.Errorf("point %d: tools %v, error %v", i, p.Tools != nil, p.ToolsErr)
		}
	}
}

func TestArgumentProblemsAreLocated(t *testing.T) {
	task := newCase(t, []byte(nested))
	found := task.Check("p", call("any robot", "plan", `{"fast":1,"ways":[{"to":"a"},{"to":2},{}]}`))
	want := "tool_calls[0].arguments.fast: got number, want boolean\n" +
		"tool_calls[0].arguments.ways[1].to: got number, want string\n" +
		`tool_calls[0].arguments.ways[2].to: the argument "to" is required`
	if got := found.All(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRawOutputIsTheLastModelStep(t *testing.T) {
	task := load(t, "format")
	step := task.Step()
	for _, s := range []string{`{"origin":"model","output_raw":"last"}`, `{"origin":"coaching","output_raw":"a coach's"}`, `{"origin":"model","output_raw":" "}`, `{"other":1}`} {
		step.InternalSteps = append(step.InternalSteps, protocol.Raw(s))
	}
	if got, isOutput := task.RawOutput(); got != "last" || !isOutput {
		t.Errorf("got %q, %v", got, isOutput)
	}
}

func TestCostlyToolsAreCompiledOnce(t *testing.T) {
	sets := toolSets{made: make(map[string]func() (*tools.Set, error)), cost: maxToolSchemas - 4}
	raw := func(name string) []protocol.Raw {
		return []protocol.Raw{protocol.Raw(`{"name":"` + name + `","parameters":{}}`)}
	}
	for _, name := range []string{"a", "b"} {
		if _, err := sets.of(raw(name), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if set, err := sets.of(raw("c"), nil); err == nil {
		t.Errorf("a set beyond the bound is made: %v", set)
	}
	if _, err := sets.of(raw("a"), nil); err != nil {
		t.Errorf("a set that is made already: %v", err)
	}
}

// TestCheckStopsAtEnoughProblems: each further call would cost a check.
func TestCheckStopsAtEnoughProblems(t *testing.T) {
	task := newCase(t, []byte(`{"run_id":"r","request_id":"c","kind":"failure","stage":"g","target_step_id":1,"reinjection_points":[{"id":"p0","input_step_id":1}],
		"trajectory":[{"id":1,"input":{"id":1,"instruction":{"type":"user","content":"x"},"tools":[{"name":"t","parameters":{"x":{"type":"integer"}}}]}}]}`))
	d := new(protocol.AgentDecision)
	for range parse.MaxCalls {
		d.ToolCalls = append(d.ToolCalls, protocol.ToolCall{Name: "t", Arguments: protocol.Raw(`{"x":"a","y":1,"z":2}`), TargetRobotName: "r"})
	}
	found := task.Check("p0", d)
	if last := found[len(found)-1].Loc[1]; len(found) != maxProblems || last == parse.MaxCalls-1 {
		t.Errorf("%d problems, the last one of call %v", len(found), last)
	}
}

func TestDecideNamesTheRobot(t *testing.T) {
	tool := func(parameters string) []byte {
		return []byte(`{"run_id":"r","request_id":"c","kind":"failure","stage":"g","target_step_id":1,"reinjection_points":[{"id":"p","input_step_id":1}],
			"trajectory":[{"id":1,"input":{"id":1,"instruction":{"type":"user","content":"x"},"tools":[{"name":"t","description":"d","parameters":` + parameters + `}]}}]}`)
	}
	for _, c := range []struct {
		name       string
		c          *Case
		call       parse.Call
		robot, arg string // "" for an error
	}{
		{"named beside the call", load(t, "failure"), parse.Call{Name: "look", Arguments: protocol.Raw(`{}`), Robot: "rover"}, "rover", `{}`},
		{"the shown argument", load(t, "failure"), parse.Call{Name: "look", Arguments: protocol.Raw(`{"target_robot":"arm_2"}`)}, "arm_2", `{}`},
		{"both, and the same", load(t, "failure"), parse.Call{Name: "look", Arguments: protocol.Raw(`{"target_robot":"rover"}`), Robot: "rover"}, "rover", `{}`},
		{"both, and different", load(t, "failure"), parse.Call{Name: "look", Arguments: protocol.Raw(`{"target_robot":"arm_2"}`), Robot: "rover"}, "rover", `{"target_robot":"arm_2"}`},
		{"none of several", load(t, "failure"), parse.Call{Name: "look", Arguments: protocol.Raw(`{}`)}, "", ""},
		{"none where none is known", newCase(t, tool(`{}`)), parse.Call{Name: "t", Arguments: protocol.Raw(`{}`)}, DefaultRobot, `{}`},
		{"an argument that the tool takes", newCase(t, tool(`{"robot":{"type":"string"}}`)), parse.Call{Name: "t", Arguments: protocol.Raw(`{"robot":"r"}`)}, DefaultRobot, `{"robot":"r"}`},
		{"an argument that is no text", newCase(t, tool(`{}`)), parse.Call{Name: "t", Arguments: protocol.Raw(`{"robot":7}`)}, DefaultRobot, `{"robot":7}`},
		{"an unknown tool", newCase(t, tool(`{}`)), parse.Call{Name: "u", Arguments: protocol.Raw(`{"target_robot":"r"}`)}, DefaultRobot, `{"target_robot":"r"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			point := c.c.Points[0]
			d, err := point.Decide(parse.Decision{Calls: []parse.Call{c.call}})
			switch {
			case c.robot == "" && err == nil:
				t.Errorf("decided %+v, want an error", d)
			case c.robot == "":
			case err != nil || d.ToolCalls[0].TargetRobotName != c.robot || string(d.ToolCalls[0].Arguments) != c.arg:
				t.Errorf("got %+v, %v; want robot %s with %s", d, err, c.robot, c.arg)
			}
		})
	}
}

func TestPointOfAcceptsIDsAndStepNumbers(t *testing.T) {
	failure, single := load(t, "failure"), load(t, "suboptimal")
	for _, c := range []struct {
		name, point string
		c           *Case
		want        string // "": none, "error": refused
	}{
		{"an ID", "here", failure, "here"},
		{"an ID with spaces", " here\n", failure, "here"},
		{"a step with one point", "1", failure, "here"},
		{"a step without a point", "9", failure, "error"},
		{"another name", "there", failure, "error"},
		{"no name, several points", "", failure, ""},
		{"no name, one point", "", single, single.Points[0].ID},
	} {
		p, err := c.c.PointOf(c.point)
		got := ""
		switch {
		case err != nil:
			got = "error"
		case p != nil:
			got = p.ID
		}
		if got != c.want {
			t.Errorf("%s: got %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestClosestNeedsOneCandidate(t *testing.T) {
	for _, c := range []struct {
		name  string
		known []string
		want  string
	}{
		{"Pick Up", []string{"pick_up", "put"}, "pick_up"},
		{"functions.pick-up", []string{"pick_up"}, "pick_up"},
		{"pickup", []string{"pick_up", "pick-up"}, ""},
		{"pick", []string{"pick_up"}, ""},
		{"x", nil, ""},
	} {
		if got, ok := closest(c.name, c.known); got != c.want || ok != (c.want != "") {
			t.Errorf("closest(%q, %q) = %q, %v; want %q", c.name, c.known, got, ok, c.want)
		}
	}
}

func TestRewriteRejectsAmbiguousOutputs(t *testing.T) {
	c := load(t, "format")
	point := c.Points[0]
	look := parse.Call{Name: "look", Arguments: protocol.Raw(`{}`), Robot: "rover"}
	for _, tt := range []struct {
		name     string
		out      parse.Output
		isOutput bool
		want     string // of the error; "": none
	}{
		{"a call", parse.Output{Calls: []parse.Call{look}}, true, ""},
		{"a call and a remark", parse.Output{Calls: []parse.Call{look}, Beside: "I look."}, true, ""},
		{"a call and a question", parse.Output{Calls: []parse.Call{look}, Beside: "Shall I?"}, true, "question"},
		{"a call and a full-width question mark", parse.Output{Calls: []parse.Call{look}, Say: "好吗？"}, true, "question"},
		{"a call and half of another", parse.Output{Calls: []parse.Call{look}, Beside: `{"name":`}, true, "another one"},
		{"a reply", parse.Output{Say: "Here."}, true, ""},
		{"plain text", parse.Output{Beside: "Here you are, sir."}, true, ""},
		{"plain text of an error", parse.Output{Beside: "Here you are, sir."}, false, "quotes no decision"},
		{"plain text with a bracket", parse.Output{Beside: "Here [1]"}, true, "neither a clean reply"},
		{"plain text with a tool's name", parse.Output{Beside: "I grasp it."}, true, "mentions the tool"},
		{"nothing", parse.Output{Beside: " \n"}, true, "neither a reply nor a tool call"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := point.Rewrite(tt.out, tt.isOutput)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v; want %q", d, err, tt.want)
			}
		})
	}
}

func TestMendValueConvertsToTheSchemaType(t *testing.T) {
	for _, c := range []struct {
		schema, value string
		tagged        bool
		want          string
	}{
		{`{"type":"string"}`, `7`, false, `"7"`},
		{`{"type":"string"}`, `true`, false, `"true"`},
		{`{"type":"string"}`, `{"a":1}`, false, `{"a":1}`},
		{`{"type":"integer"}`, `"7"`, false, `7`},
		{`{"type":"integer"}`, `"07"`, false, `"07"`},
		{`{"type":"number"}`, `"1e3"`, false, `1e3`},
		{`{"type":"number"}`, `"NaN"`, false, `"NaN"`},
		{`{"type":"boolean"}`, `"TRUE"`, false, `true`},
		{`{"type":"boolean"}`, `"yes"`, false, `"yes"`},
		{`{"type":"array"}`, `"[1]"`, false, `[1]`},
		{`{"type":"object"}`, `"[1"`, false, `"[1"`},
		{`{}`, `"{\"a\":1}"`, false, `"{\"a\":1}"`},
		{`{}`, `"{\"a\":1}"`, true, `{"a":1}`},
		{`{}`, `"7"`, true, `"7"`},
	} {
		if got := mendValue(tools.Property{Schema: protocol.Raw(c.schema)}, protocol.Raw(c.value), c.tagged); string(got) != c.want {
			t.Errorf("%s as %s (tagged %t): got %s, want %s", c.value, c.schema, c.tagged, got, c.want)
		}
	}
}

func TestNullsOfOptionalArgumentsAreDropped(t *testing.T) {
	const parameters = `{"type": "object", "required": ["to"], "properties": {
		"to": {"type": "string"}, "speed": {"enum": [1, 2]}, "note": {"type": ["string", "null"]},
		"stops": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "string"}, "for": {"type": "integer"}}, "required": ["at"]}}}}`
	req, err := protocol.DecodeSpecializedCoachingRequest([]byte(`{"run_id": "r", "request_id": "c", "kind": "failure", "stage": "goal", "target_step_id": 1,
		"trajectory": [{"id": 1, "input": {"id": 1, "instruction": {"type": "user", "content": "Go."}, "tools": [{"name": "go", "description": "Goes.", "parameters": ` + parameters + `}]}}],
		"reinjection_points": [{"id": "here", "input_step_id": 1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	point := NewCase(req).Points[0]
	for name, c := range map[string]struct{ arguments, want string }{
		"an optional one":      {`{"to":"x","speed":null}`, `{"to":"x"}`},
		"one that may be null": {`{"to":"x","note":null,"speed":null}`, `{"to":"x","note":null}`},
		"within a list":        {`{"to":"x","stops":[{"at":"a","for":null},{"at":"b","for":2}]}`, `{"to":"x","stops":[{"at":"a"},{"at":"b","for":2}]}`},
		"a required one stays": {`{"to":null,"speed":null}`, `{"to":null,"speed":null}`},
		"another fault stays":  {`{"to":"x","speed":null,"stops":7}`, `{"to":"x","speed":null,"stops":7}`},
		"no null":              {`{"to":"x","speed":2}`, `{"to":"x","speed":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := point.Decide(parse.Decision{Calls: []parse.Call{{Name: "go", Arguments: protocol.Raw(c.arguments), Robot: "r"}}})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(d.ToolCalls[0].Arguments); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
