package repair

import (
	"strings"
	"testing"

	"agentd/coaching/repair/parse"
	"agentd/protocol"
)

// formatTask is the request in testdata/format.json with another raw output of
// its target step.
func formatTask(t testing.TB, raw string) *Case {
	t.Helper()
	task := load(t, "format")
	step := task.Step()
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
		{"after thoughts with a call in them", `<think><tool_call>{"name":"look"}</tool_call></think>` + `<tool_call>{"name": "go", "arguments": {"place": "kitchen", "target_robot": "rover"}}</tool_call>`, kitchen},
		{"the end of thoughts in a string", `{"name": "go", "arguments": {"place": "</think>[]", "target_robot": "rover"}}`, replaced("p", "rover", "go", `{"place":"</think>[]"}`)},
		{"a reply in JSON", `{"say": "Which cup?", "action": {}}`, said("p", "Which cup?")},
		{"a call after thoughts with an inch mark in brackets", `<think>It is in the [24" rack].</think>` + "\n" + `<tool_call>{"name": "go", "arguments": {"place": "kitchen", "target_robot": "rover"}}</tool_call>`, kitchen},
		{"a reply after thoughts", "Hm.\n</think>\nHere you are, sir.", said("p", "Here you are, sir.")},
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

func TestWithoutModelRejectsAmbiguousOutput(t *testing.T) {
	for _, c := range []struct{ rule, raw, want string }{
		{"nothing", "<|im_end|>", "neither a reply nor a tool call"},
		{"an empty decision", `{"say": "", "action": {}}`, "neither a reply nor a tool call"},
		{"cut off within a text", `{"name": "go", "arguments": {"place": "kit`, "cut off in the middle of a value"},
		{"cut off within a number", `{"name": "grasp", "arguments": {"target_robot": "rover", "object": "cup", "force": 1`, "cut off in the middle of a value"},
		{"dots in place of a value", `{"name": "go", "arguments": {"place": "kitchen", ...}}`, "left out"},
		{"a question beside a call", `Shall I go? <tool_call>{"name": "go", "arguments": {"place": "kitchen", "target_robot": "rover"}}</tool_call>`, "has a question"},
		{"possibly another call beside a call", `<tool_call>{"name": "look", "arguments": {"target_robot": "rover"}}</tool_call> {"name": "go"`, "what may be another one"},
		{"an unknown tool", `{"name": "fly", "robot": "rover", "arguments": {}}`, `the tool "fly" is unknown`},
		{"an unknown robot", `{"name": "look", "arguments": {"target_robot": "r2"}}`, `the robot "r2" is unknown`},
		{"no robot where several are known", `{"name": "look", "arguments": {}}`, "names no robot"},
		{"an argument missing", `{"name": "go", "arguments": {"target_robot": "rover"}}`, `the argument "place" is required`},
		{"two calls of one robot in blocks", `<tool_call>{"name":"look","arguments":{"target_robot":"rover"}}</tool_call><tool_call>{"name":"go","arguments":{"place":"hall","target_robot":"rover"}}</tool_call>`, `several calls of the robot "rover"`},
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
		{"more than is read", strings.Repeat("a", parse.MaxBytes+1), "has more than"},
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

func TestWithoutModelNeedsReadableFormatRequest(t *testing.T) {
	truncated := formatTask(t, `{"say": "Here you are."}`)
	truncated.Step().Error.Code = codeTruncated

	quoted := load(t, "format")
	quoted.Step().InternalSteps = nil
	quoted.Step().Error.Message = `no tool call: {"rover": {"name": "go", "arguments": {"place": "kitchen"}}}`
	if v, err := quoted.WithoutModel(); err != nil || proposed(v) != replaced("p", "rover", "go", `{"place":"kitchen"}`) {
		t.Errorf("an error that quotes the output: %v, %v", v, err)
	}

	unquoted := load(t, "format")
	unquoted.Step().InternalSteps = nil
	unquoted.Step().Error.Message = "the model failed"

	silent := load(t, "format")
	silent.Step().InternalSteps, silent.Step().Error = nil, nil

	elsewhere := formatTask(t, `{"say": "Here you are."}`)
	input := elsewhere.Request.Trajectory[0].Input
	input.Instruction.Content += "!"
	elsewhere.Points[0].StepID, elsewhere.Points[0].Input = nil, &input

	for _, c := range []struct {
		rule string
		task *Case
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

// nested is a request whose tool has arguments of all types.
const nested = `{"run_id":"r","request_id":"c","kind":"format","stage":"g","target_step_id":1,"reinjection_points":[{"id":"p","input_step_id":1}],
	"trajectory":[{"id":1,"input":{"id":1,"instruction":{"type":"user","content":"x"},"tools":[{"name":"plan","description":"d","parameters":{"type":"object","properties":{
		"fast":{"type":"boolean"},"ways":{"type":"array","items":{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}},"any":{}}}}]},
		"internal_steps":[{"output_raw":""}]}]}`

func TestWithoutModelConvertsArgumentTypes(t *testing.T) {
	for _, c := range []struct{ rule, raw, want string }{
		{"truth and lists in XML", `<function=plan><parameter=fast>True</parameter><parameter=ways>[{"to": "a"}]</parameter><parameter=any>{"x": 1}</parameter></function>`,
			`{"fast":true,"ways":[{"to":"a"}],"any":{"x":1}}`},
		{"a list as text in JSON", `{"name":"plan","arguments":{"ways":"[{\"to\": \"a\"}]","fast":"false"}}`, `{"ways":[{"to":"a"}],"fast":false}`},
		{"a text that may be anything stays text in JSON", `{"name":"plan","arguments":{"any":"{\"x\": 1}"}}`, `{"any":"{\"x\": 1}"}`},
		{"the usual robot where none is known", `{"name":"plan","arguments":{}}`, `{}`},
	} {
		task := newCase(t, []byte(nested))
		task.Step().InternalSteps[0] = protocol.SetMember(task.Step().InternalSteps[0], "output_raw", protocol.String(c.raw))
		v, err := task.WithoutModel()
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		if got, want := proposed(v), replaced("p", DefaultRobot, "plan", c.want); got != want {
			t.Errorf("%s: got %s, want %s", c.rule, got, want)
		}
	}
}

func TestDefaultRobotIsTheOneOfTheRun(t *testing.T) {
	body := strings.Replace(nested, `"internal_steps"`, `"output":{"tool_calls":[{"name":"plan","arguments":{},"target_robot_name":"rover"}]},"internal_steps"`, 1)
	v, err := newCase(t, []byte(body)).ReadHuman(`[{"name":"plan","arguments":{}}]`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := proposed(v), replaced("p", "rover", "plan", `{}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
