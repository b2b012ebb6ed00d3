package repair

import (
	"encoding/json"
	"strings"
	"testing"

	"agentd/protocol"
)

// formatTask is the request in testdata/format.json with another raw output of
// its target step.
func formatTask(t testing.TB, raw string) *Task {
	t.Helper()
	task := load(t, "format")
	step := task.step()
	step.InternalSteps[0] = protocol.SetMember(step.InternalSteps[0], "output_raw", protocol.String(raw))
	return task
}

func TestWithoutModelRewritesOtherNotations(t *testing.T) {
	kitchen := replaced("p", "rover", "go", `{"place":"kitchen"}`)
	for _, c := range []struct{ rule, raw, want string }{
		{"a Hermes block without its last brace, text beside", "I will fetch it.\n<tool_call>\n{\"name\": \"go\", \"arguments\": {\"place\": \"kitchen\", \"target_robot\": \"rover\"}\n</tool_call><|im_end|>", kitchen},
		{"a Hermes block that is not closed", `<tool_call>{"name": "go", "arguments": {"place": "kitchen", "target_robot": "rover"}}`, kitchen},
		{"a Hermes block around a fence", "<tool_call>\n```json\n{\"name\": \"go\", \"arguments\": {\"place\": \"kitchen\", \"target_robot\": \"rover\"}}\n```\n</tool_call>", kitchen},
		{"a Hermes block with a robot's name around the call", `<tool_call>{"rover": {"name": "go", "arguments": {"place": "kitchen"}}}</tool_call>`, kitchen},
		{"a Hermes block with a whole decision", `<tool_call>{"say": "", "action": {"rover": {"name": "go", "arguments": {"place": "kitchen"}}}}</tool_call>`, kitchen},
		{"two Hermes blocks", `<tool_call>{"name":"look","arguments":{"target_robot":"rover"}}</tool_call> <tool_call>{"name":"look","arguments":{"target_robot":"arm_2"}}</tool_call>`,
			`p {"kind":"replace_decision","decision":{"say":"","tool_calls":[{"name":"look","arguments":{},"target_robot_name":"rover"},{"name":"look","arguments":{},"target_robot_name":"arm_2"}]}}`},
		{"an XML call", "<tool_call>\n<function=grasp>\n<parameter=object>\ncup\n</parameter>\n<parameter=force>\n3\n</parameter>\n<parameter=target_robot>\nrover\n</parameter>\n</function>\n</tool_call>", replaced("p", "rover", "grasp", `{"object":"cup","force":3}`)},
		{"an XML call outside of a block", `<function=go><parameter=place>kitchen</parameter><parameter=target_robot>rover</parameter></function>`, kitchen},
		{"an invocation", "<function_calls>\n<invoke name=\"go\">\n<parameter name=\"place\">kitchen</parameter>\n<parameter name=\"target_robot\">rover</parameter>\n</invoke>\n</function_calls>", kitchen},
		{"an XML text that looks like JSON", `<function=go><parameter=place>{"a":1}</parameter><parameter=target_robot>rover</parameter></function>`, replaced("p", "rover", "go", `{"place":"{\"a\":1}"}`)},
		{"say and action", `{"say": "", "action": {"rover": {"name": "go", "arguments": {"place": "kitchen"}}}}`, kitchen},
		{"say and action, both", `{"say": "I am on my way.", "action": {"rover": {"name": "go", "arguments": {"place": "kitchen"}}}}`, kitchen},
		{"single quotes and Python's constants", `{'say': None, 'action': {'rover': {'name': 'go', 'arguments': {'place': 'kitchen'}}}}`, kitchen},
		{"braces missing", `{"say": "", "action": {"rover": {"name": "go", "arguments": {"place": "kitchen"`, kitchen},
		{"a brace too many", `{"rover": {"name": "go", "arguments": {"place": "kitchen"}}}}`, kitchen},
		{"in a code block", "Sure.\n```json\n{\"rover\": {\"name\": \"go\", \"arguments\": {\"place\": \"kitchen\"}}}\n```", kitchen},
		{"in a code block that is not closed", "```json\n{\"rover\": {\"name\": \"go\", \"arguments\": {\"place\": \"kitchen\"}}}\n", kitchen},
		{"the robot beside the name", `{"name": "go", "robot": "rover", "arguments": {"place": "kitchen"}}`, kitchen},
		{"the robot among the arguments under another name", `{"name": "go", "arguments": {"place": "kitchen", "robot": "rover"}}`, kitchen},
		{"a function of chat completions", `{"tool_calls": [{"type": "function", "function": {"name": "go", "arguments": "{\"place\": \"kitchen\", \"target_robot\": \"rover\"}"}}]}`, kitchen},
		{"parameters in place of arguments", `{"tool": "go", "parameters": {"place": "kitchen", "target_robot": "rover"}}`, kitchen},
		{"names in other letters", `{"name": "Go", "arguments": {"place": "kitchen", "target_robot": "Rover"}}`, kitchen},
		{"a number as text", `{"name": "grasp", "arguments": {"object": "cup", "force": "3", "target_robot": "rover"}}`, replaced("p", "rover", "grasp", `{"object":"cup","force":3}`)},
		{"a text as number", `{"name": "go", "arguments": {"place": 101, "target_robot": "rover"}}`, replaced("p", "rover", "go", `{"place":"101"}`)},
		{"harmony", `<|channel|>analysis<|message|>{"say":"no"}<|end|><|start|>assistant<|channel|>commentary to=functions.go <|constrain|>json<|message|>{"place":"kitchen","target_robot":"rover"}<|call|>`, kitchen},
		{"harmony with the recipient first and a preamble", `<|channel|>commentary<|message|>On my way.<|end|><|start|>assistant to=functions.go<|channel|>commentary json<|message|>{'place':'kitchen','target_robot':'rover'}`, kitchen},
		{"harmony's final reply", `<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>It is in the study.<|return|>`, said("p", "It is in the study.")},
		{"behind thoughts with a call in them", `<think><tool_call>{"name":"look"}</tool_call></think>` + `<tool_call>{"name": "go", "arguments": {"place": "kitchen", "target_robot": "rover"}}</tool_call>`, kitchen},
		{"the end of thoughts in a string", `{"name": "go", "arguments": {"place": "</think>[]", "target_robot": "rover"}}`, replaced("p", "rover", "go", `{"place":"</think>[]"}`)},
		{"a reply in JSON", `{"say": "Which cup?", "action": {}}`, said("p", "Which cup?")},
		{"a call behind thoughts with an inch mark in brackets", `<think>It is in the [24" rack].</think>` + "\n" + `<tool_call>{"name": "go", "arguments": {"place": "kitchen", "target_robot": "rover"}}</tool_call>`, kitchen},
		{"a reply behind thoughts", "Hm.\n</think>\nHere you are, sir.", said("p", "Here you are, sir.")},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v, err := formatTask(t, c.raw).WithoutModel()
			if err != nil {
				t.Fatal(err)
			}
			if got := proposed(v); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestWithoutModelLeavesDoubtToACoach(t *testing.T) {
	for _, c := range []struct{ rule, raw, want string }{
		{"nothing", "<|im_end|>", "neither a reply nor a tool call"},
		{"an empty decision", `{"say": "", "action": {}}`, "neither a reply nor a tool call"},
		{"cut off within a text", `{"name": "go", "arguments": {"place": "kit`, "cut off in the middle of a value"},
		{"cut off within a number", `{"name": "grasp", "arguments": {"target_robot": "rover", "object": "cup", "force": 1`, "cut off in the middle of a value"},
		{"dots in place of a value", `{"name": "go", "arguments": {"place": "kitchen", ...}}`, "left out"},
		{"a question beside a call", `Shall I go? <tool_call>{"name": "go", "arguments": {"place": "kitchen", "target_robot": "rover"}}</tool_call>`, "has a question"},
		{"what may be another call beside a call", `<tool_call>{"name": "look", "arguments": {"target_robot": "rover"}}</tool_call> {"name": "go"`, "what may be another one"},
		{"an unknown tool", `{"name": "fly", "robot": "rover", "arguments": {}}`, `the tool "fly" is unknown`},
		{"an unknown robot", `{"name": "look", "arguments": {"target_robot": "r2"}}`, `the robot "r2" is unknown`},
		{"no robot where several are known", `{"name": "look", "arguments": {}}`, "names no robot"},
		{"an argument missing", `{"name": "go", "arguments": {"target_robot": "rover"}}`, `the argument "place" is required`},
		{"one of two calls wrong", `<tool_call>{"name":"look","arguments":{"target_robot":"rover"}}</tool_call><tool_call>{"name":"go","arguments":{"target_robot":"arm_2"}}</tool_call>`, "tool_calls[1].arguments.place"},
		{"several decisions in JSON", `{"say":"a"} {"say":"b"}`, "several JSON decisions"},
		{"thoughts that do not end", `<think>I go to the kitchen`, "within the model's thoughts"},
		{"text that mentions a tool", `grasp cup with rover`, "mentions the tool"},
		{"text with brackets", `Here you are [1], sir.`, "a call must be an object"},
		{"text with a stray tag", `Here you are</tool_call>`, "neither a clean reply nor a complete call"},
		{"JSON that is no decision", `{"place": "kitchen"}`, "but no name"},
		{"an XML call that is not closed", `<function=go><parameter=place>kitchen`, "is not closed"},
		{"an XML parameter twice", `<function=go><parameter=place>a</parameter><parameter=place>b</parameter></function>`, "twice"},
		{"harmony on an unknown channel", `<|channel|>aside<|message|>Hm.`, "unknown channel"},
		{"more than is read", strings.Repeat("a", maxAnswer+1), "has more than"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v, err := formatTask(t, c.raw).WithoutModel()
			if err == nil {
				t.Fatalf("repaired to %s", proposed(v))
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestWithoutModelNeedsTheRightRequest(t *testing.T) {
	truncated := formatTask(t, `{"say": "Here you are."}`)
	truncated.step().Error.Code = codeTruncated

	quoted := load(t, "format")
	quoted.step().InternalSteps = nil
	quoted.step().Error.Message = `no tool call: {"rover": {"name": "go", "arguments": {"place": "kitchen"}}}`
	if v, err := quoted.WithoutModel(); err != nil || proposed(v) != replaced("p", "rover", "go", `{"place":"kitchen"}`) {
		t.Errorf("an error that quotes the output: %v, %v", v, err)
	}

	unquoted := load(t, "format")
	unquoted.step().InternalSteps = nil
	unquoted.step().Error.Message = "the model failed"

	silent := load(t, "format")
	silent.step().InternalSteps, silent.step().Error = nil, nil

	elsewhere := formatTask(t, `{"say": "Here you are."}`)
	input := elsewhere.req.Trajectory[0].Input
	input.Instruction.Content += "!"
	elsewhere.points[0].StepID, elsewhere.points[0].Input = nil, &input

	for _, c := range []struct {
		rule string
		task *Task
		want string
	}{
		{"another kind", load(t, "failure"), "only an output that could not be read"},
		{"cut off at the token limit", truncated, "cut off at the token limit"},
		{"an error that quotes nothing", unquoted, "quotes no decision"},
		{"no output at all", silent, "has no raw output"},
		{"no point at the target step", elsewhere, "no reinjection point is at the target step"},
	} {
		if v, err := c.task.WithoutModel(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v; want %s", c.rule, v, err, c.want)
		}
	}
}

func TestRepairIsBounded(t *testing.T) {
	for _, c := range []struct{ rule, text string }{
		{"long", "{'a':'" + strings.Repeat("b", maxRepair) + "'}"},
		{"many quotes", "{" + strings.Repeat("'a':'b',", maxRepairQuotes/4+1) + "}"},
		{"many brackets", strings.Repeat("[", maxRepairBrackets+1) + strings.Repeat("]", maxRepairBrackets)},
	} {
		if v, err := newReader(quoter{}).parse(c.text); err == nil || !strings.Contains(err.Error(), "too long or too deeply nested") {
			t.Errorf("%s: got %.20s, %v", c.rule, v, err)
		}
	}
	r := newReader(quoter{})
	for range maxRepairTotal / 1000 {
		if _, err := r.parse("{'a':'" + strings.Repeat("b", 992) + "'}"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.parse("{'a':'" + strings.Repeat("b", 992) + "'}"); err == nil {
		t.Error("a reader repairs more than its share")
	}
}

func TestRawOutputIsTheLastOfAModel(t *testing.T) {
	task := load(t, "format")
	step := task.step()
	for _, s := range []string{`{"origin":"model","output_raw":"last"}`, `{"origin":"coaching","output_raw":"a coach's"}`, `{"origin":"model","output_raw":" "}`, `{"other":1}`} {
		step.InternalSteps = append(step.InternalSteps, protocol.Raw(s))
	}
	if got, isOutput := task.rawOutput(); got != "last" || !isOutput {
		t.Errorf("got %q, %v", got, isOutput)
	}
}

func TestHumanRequestIsWhatPagesKnow(t *testing.T) {
	for _, name := range []string{"failure", "suboptimal", "format"} {
		t.Run(name, func(t *testing.T) {
			task := load(t, name)
			req := task.HumanRequest("h-1")
			again, err := protocol.DecodeHumanCoachingRequest(req.AppendJSON(nil))
			if err != nil {
				t.Fatal(err)
			}
			if again.RequestID != "h-1" || again.PayloadID != task.req.TargetStepID || again.AllowForceSaveExample {
				t.Errorf("decoded as %+v", again)
			}
			coaching, _ := protocol.Get(again.Payload, "coaching_request")
			if got, want := string(coaching), string(task.req.AppendJSON(nil)); got != want {
				t.Errorf("the request became %s", got)
			}
			var pretty strings.Builder
			e := json.NewEncoder(&pretty)
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			if err := e.Encode(json.RawMessage(protocol.DeleteMember(again.Payload, "coaching_request"))); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".human", "==== "+req.PayloadType+"\n"+req.RenderedPrompt+"==== payload without coaching_request\n"+pretty.String())
		})
	}
}

func TestLongRequestsReachPeopleToo(t *testing.T) {
	req := newTask(t, longRun(3, 300_000, 1)).HumanRequest("h")
	steps, _ := protocol.Get(req.Payload, "trajectory_steps")
	if _, whole := protocol.Get(req.Payload, "coaching_request"); !whole || len(steps) > maxPayloadMember {
		t.Errorf("the request travels along: %v; beside it are %d bytes of steps", whole, len(steps))
	}
	task := load(t, "failure")
	task.req.Stage.Goal = strings.Repeat("g", maxPayloadRequest)
	req = task.HumanRequest("h")
	if n := len(req.AppendJSON(nil)); n > protocol.MaxBodyBytes {
		t.Errorf("the task has %d bytes, more than its reader takes", n)
	}
}

func TestDeepRequestsReachPeopleToo(t *testing.T) {
	for _, member := range []string{"additional_info", "active_errors", "trajectory", "output"} {
		t.Run(member, func(t *testing.T) {
			body := load(t, "failure").req.AppendJSON(nil)
			deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
			switch member {
			case "additional_info":
				body = protocol.SetMember(body, member, protocol.Raw(deep(protocol.MaxDepth-1)))
			case "active_errors":
				body = protocol.SetMember(body, member, protocol.Raw("["+deep(protocol.MaxDepth-2)+"]"))
			case "trajectory":
				body = []byte(strings.Replace(string(body), `{"status":"failed","seconds":1.5}`, deep(protocol.MaxDepth-3), 1))
			case "output":
				body = []byte(strings.Replace(string(body), `{"place":"kitchen"}`, deep(protocol.MaxDepth-6), 1))
			}
			if nesting(body) != protocol.MaxDepth {
				t.Fatalf("the request is nested %d levels deep", nesting(body))
			}
			req := newTask(t, body).HumanRequest("h")
			if _, err := protocol.DecodeHumanCoachingRequest(req.AppendJSON(nil)); err != nil {
				t.Error(err)
			}
		})
	}
}
