package repair

import (
	"strings"
	"testing"

	"agentd/coaching/repair/parse"
	"agentd/protocol"
)

// proposed is a verdict on one line.
func proposed(v *Verdict) string {
	if !v.Corrected {
		return "declined: " + v.Why
	}
	var list []string
	for _, p := range v.Proposals {
		list = append(list, p.ReinjectionPointID+" "+string(p.ExtraKeys))
	}
	return strings.Join(list, "\n")
}

// replaced is a proposal with one call at a point.
func replaced(point, robot, name, arguments string) string {
	return point + ` {"kind":"replace_decision","decision":{"say":"","tool_calls":[{"name":"` + name + `","arguments":` + arguments + `,"target_robot_name":"` + robot + `"}]}}`
}

func said(point, text string) string {
	return point + ` {"kind":"replace_say","text":` + string(protocol.String(text)) + `}`
}

const graspCup = `{"why":"w","outcome":"corrected","reinjection_point_id":"here","decision":{"say":"","tool_calls":[{"name":"grasp","arguments":{"object":"cup"},"target_robot_name":"rover"}]}}`

// strayMark is a refusal that would be a correction if it were cut at the mark.
const strayMark = `{"why":"a stray </think> before the call","outcome":"abandoned","reinjection_point_id":"here","decision":{"say":"Nothing to correct."}}`

func TestReadAcceptsManyForms(t *testing.T) {
	grasp := replaced("here", "rover", "grasp", `{"object":"cup"}`)
	for _, c := range []struct{ rule, answer, want string }{
		{"the object", graspCup, grasp},
		{"arguments as text", `{"outcome":"corrected","reinjection_point_id":"here","decision":{"say":"","tool_calls":[{"name":"grasp","arguments":"{\"object\": \"cup\"}","target_robot_name":"rover"}]}}`, grasp},
		{"arguments as text of near-JSON", `{"outcome":"corrected","reinjection_point_id":"here","decision":{"tool_calls":[{"name":"grasp","arguments":"{'object': 'cup'}","target_robot_name":"rover"}]}}`, grasp},
		{"empty arguments as text", `{"outcome":"corrected","reinjection_point_id":"here","decision":{"tool_calls":[{"name":"look","arguments":"","target_robot_name":"rover"}]}}`, replaced("here", "rover", "look", `{}`)},
		{"the decision as text", `{"reinjection_point_id":"here","decision":"{\"tool_calls\":[{\"name\":\"grasp\",\"arguments\":{\"object\":\"cup\"},\"target_robot_name\":\"rover\"}]}"}`, grasp},
		{"encoded twice", string(protocol.String(graspCup)), grasp},
		{"a list of one", "[" + graspCup + "]", grasp},
		{"a list of one that is encoded twice, fenced", "```json\n[" + string(protocol.String(graspCup)) + "]\n```", grasp},
		{"fenced", "Here it is:\n```json\n" + graspCup + "\n```\nDone.", grasp},
		{"fenced and not closed", "```\n" + graspCup, grasp},
		{"prose around", "I think {this} is right: " + graspCup + " So be it.", grasp},
		{"after thoughts", `<think>{"outcome":"abandoned","why":"no"}</think>` + graspCup, grasp},
		{"after a draft", `First {"outcome":"corrected","reinjection_point_id":"first","decision":{"say":"a"}}, no: ` + graspCup, grasp},
		{"single quotes", strings.ReplaceAll(graspCup, `"`, `'`), grasp},
		{"brackets missing at the end", strings.TrimRight(graspCup, "}]"), grasp},
		{"a trailing comma", strings.Replace(graspCup, `"rover"}`, `"rover",}`, 1), grasp},
		{"the robot among the arguments", `{"reinjection_point_id":"here","decision":{"tool_calls":[{"name":"grasp","arguments":{"object":"cup","target_robot":"rover"}}]}}`, grasp},
		{"a history's action", `{"reinjection_point_id":"here","decision":{"say":"","action":{"rover":{"name":"grasp","arguments":{"object":"cup"}}}}}`, grasp},
		{"a function of chat completions", `{"reinjection_point_id":"here","decision":{"tool_calls":[{"type":"function","target_robot_name":"rover","function":{"name":"grasp","arguments":"{\"object\":\"cup\"}"}}]}}`, grasp},
		{"the decision's members beside the point", `{"reinjection_point_id":"here","say":"Which mug?"}`, said("here", "Which mug?")},
		{"a text", `{"why":"w","outcome":"corrected","reinjection_point_id":"here","decision":{"say":"Which mug?","tool_calls":[]}}`, said("here", "Which mug?")},
		{"a call as the text", `{"reinjection_point_id":"here","decision":{"say":"<tool_call>{\"name\":\"grasp\",\"arguments\":{\"object\":\"cup\",\"target_robot\":\"rover\"}}</tool_call>"}}`, grasp},
		{"a text with JSON of no tool", `{"reinjection_point_id":"here","decision":{"say":"{\"name\": \"Ann\"}"}}`, said("here", `{"name": "Ann"}`)},
		{"the outcome in capitals", strings.Replace(graspCup, "corrected", "CORRECTED", 1), grasp},
		{"the step's number for its only point", strings.Replace(graspCup, `"here"`, `1`, 1), grasp},
		{"numbers and order of arguments kept", `{"reinjection_point_id":"first","decision":{"tool_calls":[{"name":"go","arguments":{"z":1.50,"place":"kitchen"},"target_robot_name":"arm_2"}]}}`,
			replaced("first", "arm_2", "go", `{"z":1.50,"place":"kitchen"}`)},
		{"abandoned", `{"why":"nothing is wrong","outcome":"abandoned","reinjection_point_id":"","decision":{"say":"","tool_calls":[]}}`, "declined: nothing is wrong"},
		{"the end of thoughts in a string", strayMark, "declined: a stray </think> before the call"},
		{"the end of thoughts in a string, after thoughts", `<think>{"outcome": "corrected"} {"why": no</think> not that </think>` + strayMark, "declined: a stray </think> before the call"},
		{"the end of thoughts in a string of near-JSON", strings.TrimSuffix(strayMark, "}"), "declined: a stray </think> before the call"},
		{"the end of thoughts in single quotes", strings.ReplaceAll(strayMark, `"`, `'`), "declined: a stray </think> before the call"},
		{"the end of thoughts in a fence", "```json\n" + strayMark + "\n```", "declined: a stray </think> before the call"},
		{"thoughts with half a string", `<think>Not {"why": "bad</think>` + graspCup, grasp},
		{"thoughts with half a string, and a fence", "Not {\"why\": \"bad\n</think>\n```json\n" + graspCup + "\n```", grasp},
		{"abandoned without a reason", `{"outcome":"abandoned"}`, "declined: " + noReason},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v, err := load(t, "failure").Read(c.answer)
			if err != nil {
				t.Fatal(err)
			}
			if got := proposed(v); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestReadErrorsTellTheCoachWhatIsWrong(t *testing.T) {
	decide := func(decision string) string { return `{"reinjection_point_id":"here","decision":` + decision + `}` }
	for _, c := range []struct{ rule, answer, want string }{
		{"no JSON", "I would grasp the cup.", "the answer holds no JSON"},
		{"nothing", "", "the answer holds no JSON"},
		{"an empty object", "{}", "it is empty"},
		{"broken JSON", `{"outcome" "corrected" : : }`, "can't be read"},
		{"cut off in a string", graspCup[:strings.Index(graspCup, "cup")+2], "cut off in the middle of a value"},
		{"a name twice", strings.Replace(graspCup, `"why":"w"`, `"why":"w","why":"v"`, 1), "duplicate object member name"},
		{"half of a surrogate pair", strings.Replace(graspCup, `"why":"w"`, `"why":"\ud800"`, 1), "surrogate"},
		{"too long", strings.Repeat(" ", parse.MaxBytes+1), "at most"},
		{"an unknown outcome", strings.Replace(graspCup, "corrected", "fixed", 1), `outcome must be "corrected" or "abandoned", not "\"fixed\""`},
		{"thoughts that are cut off", "<think>\nFirst idea: " + graspCup + "\nbut no, that is wrong because", "ends within its thoughts"},
		{"thoughts that open again", "<think>a</think>\n<think>" + graspCup, "ends within its thoughts"},
		{"analysis that is cut off", "<|channel|>analysis<|message|>First idea: " + graspCup + " wrong", "ends within its thoughts"},
		{"no point", strings.Replace(graspCup, `"reinjection_point_id":"here",`, "", 1), `reinjection_point_id is missing; write one of "first", "here"`},
		{"an unknown point", strings.Replace(graspCup, `"here"`, `"there"`, 1), `"there" is not one of the reinjection points; they are "first", "here"`},
		{"neither text nor calls", decide(`{"say":"","tool_calls":[]}`), "the decision is invalid: the decision is empty"},
		{"dots for a text", decide(`{"say":"..."}`), "the decision is empty"},
		{"a call in another notation as the text", decide(`{"say":"grasp(object=\"cup\")"}`), `say: the text is a call of "grasp", which is not made; write the call in tool_calls`},
		{"both text and calls", decide(`{"say":"a","tool_calls":[{"name":"look","arguments":{},"target_robot_name":"rover"}]}`), "must not both be nonempty"},
		{"an unknown tool", strings.Replace(graspCup, `"grasp"`, `"take"`, 1), `tool_calls[0].name: the tool "take" is unknown; known are "go", "grasp", "look"`},
		{"an unknown robot", strings.Replace(graspCup, `"rover"`, `"r2"`, 1), `tool_calls[0].target_robot_name: the robot "r2" is unknown; known are "rover", "arm_2"`},
		{"no robot where several are known", strings.Replace(graspCup, `,"target_robot_name":"rover"`, "", 1), `names no robot in target_robot_name; known are "rover", "arm_2"`},
		{"an argument missing", strings.Replace(graspCup, `"object":"cup"`, "", 1), `tool_calls[0].arguments.object: the argument "object" is required`},
		{"arguments that are a list", strings.Replace(graspCup, `{"object":"cup"}`, "[]", 1), `the arguments of "grasp" must be an object`},
		{"arguments as text that is no JSON", strings.Replace(graspCup, `{"object":"cup"}`, `"cup"`, 1), `should hold a JSON object`},
		{"a call without a name", decide(`{"tool_calls":[{"object":"cup"}]}`), `has the member "object", but no name`},
		{"say that is no text", decide(`{"say":5}`), "say must be a string"},
		{"a decision that is a number", decide(`7`), "the decision must be an object"},
		{"calls nested too deeply", decide(strings.Repeat("[", 9) + strings.Repeat("]", 9)), "nested too deeply"},
		{"the agent's own decision at another point", `{"reinjection_point_id":"first","decision":{"tool_calls":[{"name":"go","arguments":{"place":"kitchen"},"target_robot_name":"rover"}]}}`, "the very decision that the agent took"},
		{"the agent's own decision", strings.Replace(graspCup, `"cup"`, `"mug"`, 1), "the very decision that the agent took"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v, err := load(t, "failure").Read(c.answer)
			if err == nil {
				t.Fatalf("read as %s", proposed(v))
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestAgentsOwnDecisionIsNoCorrection at any point: the run would go as it went.
func TestAgentsOwnDecisionIsNoCorrection(t *testing.T) {
	const input = `{"id":0,"instruction":{"type":"user","content":"%"},"memory":{"summary":"%"}}`
	body := func(kind string) []byte {
		step := func(n string) string {
			return `{"id":` + n + `,"input":` + strings.ReplaceAll(input, "%", n) + `,"output":{"say":"said ` + n + `"}}`
		}
		return []byte(`{"run_id":"r","request_id":"c","kind":"` + kind + `","stage":"g","target_step_id":2,"trajectory":[` + step("1") + `,` + step("2") + `],
			"reinjection_points":[{"id":"p1","input_step_id":1},{"id":"p2","input_step_id":2},{"id":"own1","input":` + strings.ReplaceAll(input, "%", "1") +
			`},{"id":"own2","input":` + strings.ReplaceAll(input, "%", "2") + `},{"id":"other","input":` + strings.ReplaceAll(input, "%", "3") + `}]}`)
	}
	for _, c := range []struct{ kind, point, say string }{
		{"failure", "p1", "1"}, {"failure", "p2", "2"}, {"failure", "own1", "1"}, {"failure", "own2", "2"}, {"suboptimal", "p1", "1"},
		{"format", "p1", "1"}, {"format", "own1", "1"}, // but not p2 and own2: that output could not be read
	} {
		task := newCase(t, body(c.kind))
		for _, say := range []string{"1", "2"} {
			v, err := task.Read(`{"reinjection_point_id":"` + c.point + `","decision":{"say":" said ` + say + `\n"}}`)
			if own := err != nil && strings.Contains(err.Error(), "the very decision"); own != (say == c.say) {
				t.Errorf("%s at %s, the decision of step %s: %v, %v", c.kind, c.point, say, v, err)
			}
		}
	}
	for kind, points := range map[string][]string{"failure": {"other"}, "format": {"p2", "own2", "other"}} {
		for _, point := range points {
			if _, err := newCase(t, body(kind)).Read(`{"reinjection_point_id":"` + point + `","decision":{"say":"said 2"}}`); err != nil {
				t.Errorf("%s at %s: %v", kind, point, err)
			}
		}
	}
	calls := `"tool_calls":[{"name":"go","arguments":{"room":"hall","speed":1},"target_robot_name":"robot"}]`
	task := newCase(t, []byte(`{"run_id":"r","request_id":"c","kind":"failure","stage":"g","target_step_id":1,"reinjection_points":[{"id":"p","input_step_id":1}],
		"trajectory":[{"id":1,"input":{"id":0,"instruction":{"type":"user","content":"Go."},"tools":[{"name":"go","parameters":{"room":{"type":"string"},
		"speed":{"type":"number"}}}]},"output":{"say":"",`+calls+`}}]}`))
	if v, err := task.Read(`{"decision":{` + strings.Replace(calls, `"room":"hall","speed":1`, `"speed":1.0,"room":"hall"`, 1) + `}}`); err == nil {
		t.Errorf("the same arguments: read as %s", proposed(v))
	}
}

func TestArgumentsNamedLikeTheRobot(t *testing.T) {
	for _, c := range []struct{ rule, schema, call, want string }{
		{"the parameter that is shown is the robot", `{"properties":{},"additionalProperties":true}`,
			`"arguments":{"target_robot":"r"}`, replaced("p", "r", "t", `{}`)},
		{"another is, where there is no other use for it", `{"properties":{}}`,
			`"arguments":{"robot":"r"}`, replaced("p", "r", "t", `{}`)},
		{"and where the tool refuses others", `{"properties":{},"additionalProperties":false}`,
			`"arguments":{"executing_robot":"r"}`, replaced("p", "r", "t", `{}`)},
		{"not where the tool takes any", `{"properties":{},"additionalProperties":true}`,
			`"arguments":{"robot":"r"}`, replaced("p", DefaultRobot, "t", `{"robot":"r"}`)},
		{"or any of a form", `{"properties":{},"patternProperties":{"robot":{}}}`,
			`"arguments":{"robot":"r"}`, replaced("p", DefaultRobot, "t", `{"robot":"r"}`)},
		{"or that one", `{"properties":{"robot":{}}}`,
			`"arguments":{"robot":"r"}`, replaced("p", DefaultRobot, "t", `{"robot":"r"}`)},
		{"not beside a robot", `{"properties":{}}`,
			`"target_robot_name":"r","arguments":{"robot":"r"}`, replaced("p", "r", "t", `{"robot":"r"}`)},
	} {
		t.Run(c.rule, func(t *testing.T) {
			task := newCase(t, []byte(`{"run_id":"r","request_id":"c","kind":"failure","stage":"g","target_step_id":1,"reinjection_points":[{"id":"p","input_step_id":1}],
				"trajectory":[{"id":1,"input":{"id":1,"instruction":{"type":"user","content":"x"},"tools":[{"name":"t","description":"d","parameters":`+c.schema+`}]}}]}`))
			v, err := task.Read(`{"decision":{"tool_calls":[{"name":"t",` + c.call + `}]}}`)
			if err != nil {
				t.Fatal(err)
			}
			if got := proposed(v); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestReadNeedsNoPointIfThereIsOne(t *testing.T) {
	v, err := load(t, "suboptimal").Read(`{"outcome":"corrected","decision":{"tool_calls":[{"name":"go","arguments":{"place":"kitchen"},"target_robot_name":"rover"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := proposed(v), replaced("p", "rover", "go", `{"place":"kitchen"}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUnusableToolsAllowOnlyText(t *testing.T) {
	task := load(t, "own_input")
	_, err := task.Read(`{"reinjection_point_id":"own","decision":{"tool_calls":[{"name":"look","arguments":{},"target_robot_name":"rover"}]}}`)
	if err == nil || !strings.Contains(err.Error(), "only a text can be proposed here") {
		t.Errorf("a call: %v", err)
	}
	if _, err := task.Read(`{"reinjection_point_id":"own","decision":{"say":"Again?"}}`); err != nil {
		t.Errorf("a text: %v", err)
	}
}

func TestReadHumanAcceptsManyForms(t *testing.T) {
	both := replaced("here", "rover", "grasp", `{"object":"cup"}`) + "\n" + replaced("first", "rover", "grasp", `{"object":"cup"}`)
	here := replaced("here", "rover", "grasp", `{"object":"cup"}`)
	for _, c := range []struct{ rule, output, want string }{
		{"a history's decision", `{"say": "", "action": {"rover": {"name": "grasp", "arguments": {"object": "cup"}}}}`, both},
		{"a decision", `{"say":"","tool_calls":[{"name":"grasp","arguments":{"object":"cup"},"target_robot_name":"rover"}]}`, both},
		{"a list of calls", `[{"name":"grasp","arguments":{"object":"cup"},"robot":"rover"}]`, both},
		{"a decision at a point", `{"reinjection_point_id":"here","tool_calls":[{"name":"grasp","arguments":{"object":"cup"},"target_robot_name":"rover"}]}`, here},
		{"a history's decision at a point", `{"say":"","action":{"rover":{"name":"grasp","arguments":{"object":"cup"}}},"reinjection_point_id":"here"}`, here},
		{"a list at a point", `{"reinjection_point_id":"here","decision":[{"name":"grasp","arguments":{"object":"cup"},"robot":"rover"}]}`, here},
		{"a model's answer", graspCup, here},
		{"a text", `{"say":"Which mug?","action":{}}`, said("here", "Which mug?") + "\n" + said("first", "Which mug?")},
		{"a JSON string", `"Which mug?"`, said("here", "Which mug?") + "\n" + said("first", "Which mug?")},
		{"fenced", "```json\n{\"say\":\"Which mug?\",\"reinjection_point_id\":\"here\"}\n```", said("here", "Which mug?")},
		{"the agent's own decision", `{"reinjection_point_id":"here","tool_calls":[{"name":"grasp","arguments":{"object":"mug"},"target_robot_name":"rover"}]}`, replaced("here", "rover", "grasp", `{"object":"mug"}`)},
		{"abandoned", `{"outcome":"abandoned","why":"too late"}`, "declined: too late"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v, err := load(t, "failure").ReadHuman(c.output)
			if err != nil {
				t.Fatal(err)
			}
			if got := proposed(v); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestReadHumanProposesOnlyWhereValid(t *testing.T) {
	v, err := load(t, "own_input").ReadHuman(`[{"name":"grasp","arguments":{"object":"cup"},"robot":"rover"}]`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := proposed(v), replaced("again", "rover", "grasp", `{"object":"cup"}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReadHumanErrors(t *testing.T) {
	for _, c := range []struct{ rule, output, want string }{
		{"plain text", "Ask which mug.", "the answer holds no JSON"},
		{"a decision valid nowhere", `{"tool_calls":[{"name":"take","arguments":{},"target_robot_name":"rover"}]}`, `at the point "here": the decision is invalid`},
		{"an unknown point", `{"reinjection_point_id":"x","say":"a"}`, "not one of the reinjection points"},
		{"an empty decision", `{"say":"","action":{}}`, "the decision is empty"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v, err := load(t, "failure").ReadHuman(c.output)
			if err == nil {
				t.Fatalf("read as %s", proposed(v))
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestRobotMayBeNamedLikeAField(t *testing.T) {
	for _, robot := range []string{"robot", "robot_name", "target_robot", "target_robot_name"} {
		task := newCase(t, []byte(`{"run_id":"r","request_id":"c","kind":"failure","stage":"g","target_step_id":1,`+
			`"trajectory":[{"id":1,"input":{"id":0,"instruction":{"type":"user","content":"Look."},`+
			`"tools":[{"name":"look","description":"","parameters":{}}]}}],"reinjection_points":[{"id":"p","input_step_id":1}]}`))
		v, err := task.ReadHuman(`{"say":"","action":{"` + robot + `":{"name":"look","arguments":{}}}}`)
		if err != nil {
			t.Errorf("%s: %v", robot, err)
			continue
		}
		if got, want := proposed(v), replaced("p", robot, "look", `{}`); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
