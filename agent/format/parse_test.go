package format_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
)

func says(text string) format.Decision {
	return format.Decision{AgentDecision: protocol.AgentDecision{Say: text}}
}

func calls(list ...tools.Call) format.Decision {
	return format.Decision{AgentDecision: protocol.AgentDecision{ToolCalls: list}}
}

// TestParse states what each parser makes of answers that no grammar held back.
func TestParse(t *testing.T) {
	look := tools.Call{Name: "look", Arguments: protocol.Raw(`{}`), TargetRobotName: "arm"}
	base := tools.Call{Name: "look", Arguments: protocol.Raw(`{}`), TargetRobotName: "base"}
	const (
		llamaLook = `{"name": "look", "parameters": {"target_robot": "arm"}}`
		llamaBase = `{"name": "look", "parameters": {"target_robot": "base"}}`
	)
	hermesLook := "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"target_robot\": \"arm\"}}\n</tool_call>"
	for _, test := range []struct {
		name, setup, answer string
		mixed               string
		want                format.Decision
		err                 string // part of the message
	}{
		{name: "the mark of an end token is text", setup: "hermes", answer: " Was <s>10</s>\n", want: says("Was <s>10</s>")},
		{name: "so is another one", setup: "json", answer: `{"say": "Was <|im_end|>", "action": {}}`, want: says("Was <|im_end|>")},
		{name: "numbers and escapes keep their bytes", setup: "hermes",
			answer: `<tool_call>{"name":"report","arguments":{"data": 1.50e+02, "tags":["\u00e9"],"either":"a\/b","target_robot":"base"}}</tool_call>`,
			want: calls(tools.Call{Name: "report", TargetRobotName: "base",
				Arguments: protocol.Raw(`{"data":1.50e+02,"tags":["\u00e9"],"either":"a\/b"}`)})},
		{name: "thoughts are kept apart", setup: "hermes", answer: "<think>a\n</think>\n\nHi",
			want: format.Decision{AgentDecision: protocol.AgentDecision{Say: "Hi"}, Reasoning: []string{"a"}}},
		{name: "only the end of thoughts counts", setup: "hermes", answer: "a</think>Hi",
			want: format.Decision{AgentDecision: protocol.AgentDecision{Say: "Hi"}, Reasoning: []string{"a"}}},
		{name: "thoughts that do not end", setup: "hermes", answer: "<think>a", err: "thinking block is not closed"},
		{name: "two blocks of thoughts", setup: "hermes", answer: "<think>a</think><think>b</think>c", err: "stray <think>"},
		{name: "text before a call", setup: "hermes", answer: "I look. " + hermesLook, err: "text beside tool calls"},
		{name: "text before a call is dropped when calls win", setup: "hermes", mixed: format.MixedTools, answer: "I look. " + hermesLook,
			want: calls(look)},
		{name: "an unknown tool", setup: "hermes", answer: strings.Replace(hermesLook, "look", "fly", 1), err: `tool "fly" is unknown; known are move_to, grasp, look, report`},
		{name: "an unknown robot", setup: "hermes", answer: strings.Replace(hermesLook, `"arm"`, `"leg"`, 1), err: `unknown robot "leg"; known are arm, base`},
		{name: "a robot that is no string", setup: "hermes", answer: strings.Replace(hermesLook, `"arm"`, `5`, 1), err: "must name a robot"},
		{name: "no robot among several", setup: "hermes", answer: `<tool_call>{"name":"look","arguments":{}}</tool_call>`,
			want: calls(tools.Call{Name: "look", Arguments: protocol.Raw(`{}`), TargetRobotName: "robot"})},
		{name: "a missing argument", setup: "hermes", answer: `<tool_call>{"name":"grasp","arguments":{"target_robot":"arm"}}</tool_call>`,
			err: "required arguments are missing: object"},
		{name: "an argument of a wrong type", setup: "hermes", answer: `<tool_call>{"name":"grasp","arguments":{"object":"cup","pose":{"x":"a"},"target_robot":"arm"}}</tool_call>`,
			err: "argument pose.x: got string, want number"},
		{name: "an argument too many", setup: "hermes", answer: `<tool_call>{"name":"grasp","arguments":{"object":"cup","z":1,"target_robot":"arm"}}</tool_call>`,
			err: "additional properties 'z' not allowed"},
		{name: "arguments that are no object", setup: "hermes", answer: `<tool_call>{"name":"look","arguments":"{}"}</tool_call>`, err: "must be an object, not a string"},
		{name: "a call that is cut", setup: "hermes", answer: `<tool_call>{"name":"look","argu`, err: "the JSON ends too early"},
		{name: "a call that is not closed", setup: "hermes", answer: `<tool_call>{"name":"look","arguments":{}} and`, err: "not closed by </tool_call>"},
		{name: "a name twice counts where it stands last", setup: "hermes", answer: `<tool_call>{"name":"report","arguments":{"data":{"a":1,"a":2},"tags":[],"either":1,"target_robot":"arm"}}</tool_call>`,
			want: calls(tools.Call{Name: "report", TargetRobotName: "arm", Arguments: protocol.Raw(`{"data":{"a":2},"tags":[],"either":1}`)})},

		{name: "a dict of Python with escapes and a name twice", setup: "hermes", answer: `report(data={'a': 1, 'b': 'caf\u00e9\r\'\"\d', 'a': 2}, tags=[], either=1, target_robot='arm')`,
			want: format.Decision{CallForm: format.FormNamed, AgentDecision: protocol.AgentDecision{ToolCalls: []tools.Call{
				{Name: "report", TargetRobotName: "arm", Arguments: protocol.Raw(`{"data":{"a":2,"b":"café\r'\"\\d"},"tags":[],"either":1}`)},
			}}}},
		{name: "tagged values take the types of their parameters", setup: "tagged",
			answer: "<tool_call><function=grasp><parameter=object>cup</parameter><parameter=tries> 3 </parameter><parameter=soft>False</parameter>" +
				"<parameter=target_robot>\narm\n</parameter></function></tool_call>",
			want: calls(tools.Call{Name: "grasp", TargetRobotName: "arm", Arguments: protocol.Raw(`{"object":"cup","tries":3,"soft":false}`)})},
		{name: "strings in JSON may hold the mark of a parameter's end", setup: "tagged",
			answer: "<tool_call><function=report><parameter=data>\n{\"a\": \"</parameter>\"}\n</parameter><parameter=tags>[]</parameter><parameter=either>1</parameter>" +
				"<parameter=target_robot>arm</parameter></function></tool_call>",
			want: calls(tools.Call{Name: "report", TargetRobotName: "arm", Arguments: protocol.Raw(`{"data":{"a":"</parameter>"},"tags":[],"either":1}`)})},
		{name: "a parameter twice", setup: "tagged", err: "has the parameter object twice",
			answer: "<tool_call><function=grasp><parameter=object>cup</parameter><parameter=object>cup</parameter></function></tool_call>"},
		{name: "text among the parameters", setup: "tagged", err: "where a <parameter= or </function> tag belongs",
			answer: "<tool_call><function=grasp>cup</function></tool_call>"},
		{name: "JSON calls are read by the tagged form too", setup: "tagged", answer: hermesLook, want: calls(look)},

		{name: "analysis, then a final reply", setup: "gpt-oss", answer: "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>",
			want: format.Decision{AgentDecision: protocol.AgentDecision{Say: "Hi"}, Reasoning: []string{"a"}}},
		{name: "a preamble beside a call", setup: "gpt-oss", err: "text beside tool calls",
			answer: "<|channel|>commentary<|message|>I look<|end|><|start|>assistant to=functions.look<|channel|>commentary json<|message|>{\"target_robot\":\"arm\"}<|call|>"},
		{name: "a preamble is dropped when calls win", setup: "gpt-oss", mixed: format.MixedTools,
			answer: "<|channel|>commentary<|message|>I look<|end|><|start|>assistant to=functions.look<|channel|>commentary json<|message|>{\"target_robot\":\"arm\"}<|call|>",
			want:   calls(look)},
		{name: "a preamble before a final reply is no part of it", setup: "gpt-oss", answer: "<|channel|>commentary<|message|>I look<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>",
			want: says("Hi")},
		{name: "a preamble alone", setup: "gpt-oss", answer: "<|channel|>commentary<|message|>I look", err: "commentary, but neither a final reply nor a function call"},
		{name: "no robot among several in a function for several calls", setup: "gpt-oss",
			answer: `<|channel|>commentary to=functions.call_in_parallel <|constrain|>json<|message|>{"calls":[{"name":"look","arguments":{}},{"name":"look","arguments":{},"target_robot":"arm"}]}`,
			want:   calls(tools.Call{Name: "look", Arguments: protocol.Raw(`{}`), TargetRobotName: "robot"}, look)},
		{name: "a robot among the arguments of one of several calls", setup: "gpt-oss",
			answer: `<|channel|>commentary to=functions.call_in_parallel <|constrain|>json<|message|>{"calls":[{"name":"look","arguments":{"target_robot":"base"}},{"name":"look","arguments":{},"target_robot":"arm"}]}`,
			want:   calls(base, look)},
		{name: "an unknown robot among the arguments of one of several calls", setup: "gpt-oss",
			answer: `<|channel|>commentary to=functions.call_in_parallel <|constrain|>json<|message|>{"calls":[{"name":"look","arguments":{"target_robot":"leg"}}]}`,
			err:    `unknown robot "leg"`},
		{name: "several calls at once", setup: "gpt-oss",
			answer: `<|channel|>commentary to=functions.call_in_parallel <|constrain|>json<|message|>{"calls":[{"name":"look","arguments":{},"target_robot":"arm"},{"name":"look","arguments":{},"target_robot":"base"}]}`,
			want:   calls(look, tools.Call{Name: "look", Arguments: protocol.Raw(`{}`), TargetRobotName: "base"})},

		{name: "end tokens left behind are dropped", setup: "llama", answer: " Hello <|eot_id|>\n", want: says("Hello")},
		{name: "a call, and the end of its message", setup: "llama", answer: llamaLook + "<|eom_id|>", want: calls(look)},
		{name: "a call after the tag", setup: "llama", answer: "\n<|python_tag|>\n" + llamaLook + "<|eom_id|>", want: calls(look)},
		{name: "arguments in place of parameters", setup: "llama", answer: `{"name":"look","arguments":{"target_robot":"arm"}}`,
			want: calls(look)},
		{name: "no parameters", setup: "llama", answer: `{"name": "look"}`,
			want: calls(tools.Call{Name: "look", Arguments: protocol.Raw(`{}`), TargetRobotName: "robot"})},
		{name: "arguments and parameters", setup: "llama", answer: `{"name":"look","arguments":{},"parameters":{"target_robot":"arm"}}`, err: `unknown member "parameters"`},
		{name: "the type of the tools in the prompt", setup: "llama", answer: `{"type": "function", "name": "look", "parameters": {"target_robot": "arm"}}`,
			want: calls(look)},
		{name: "the form of the tools in the prompt", setup: "llama", answer: `{"type": "function", "function": {"name": "look", "parameters": {"target_robot": "arm"}}}`,
			want: calls(look)},
		{name: "several calls between semicolons", setup: "llama", answer: "<|python_tag|>" + llamaLook + "; " + llamaBase,
			want: calls(look, base)},
		{name: "several calls without the tag", setup: "llama", answer: llamaLook + ";" + llamaBase + ";", want: calls(look, base)},
		{name: "several calls, each on a line", setup: "llama", answer: llamaLook + "\n" + llamaBase, want: calls(look, base)},
		{name: "several calls between commas", setup: "llama", answer: llamaLook + ", " + llamaBase, want: calls(look, base)},
		{name: "a tag before each call", setup: "llama", answer: "<|python_tag|>" + llamaLook + ";<|python_tag|>" + llamaBase,
			want: calls(look, base)},
		{name: "strings may hold what separates calls", setup: "llama", answer: `{"name":"report","parameters":{"data":"<|python_tag|>};{","tags":[],"either":1,"target_robot":"arm"}}`,
			want: calls(tools.Call{Name: "report", TargetRobotName: "arm", Arguments: protocol.Raw(`{"data":"<|python_tag|>};{","tags":[],"either":1}`)})},
		{name: "text before the tag", setup: "llama", answer: "I look. <|python_tag|>" + llamaLook, err: "text beside tool calls"},
		{name: "text behind a call", setup: "llama", answer: llamaLook + " I look.", err: "text beside tool calls"},
		{name: "text is dropped when calls win", setup: "llama", mixed: format.MixedTools, answer: "I look. <|python_tag|>" + llamaLook + "; Done.",
			want: calls(look)},
		{name: "a call that is cut", setup: "llama", answer: `{"name": "look", "param`, err: "the JSON ends too early"},
		{name: "a call of a tool as Python", setup: "llama", answer: `<|python_tag|>look.call(target_robot="arm")`, err: "no valid JSON"},
		{name: "a tag and nothing else", setup: "llama", answer: "<|python_tag|><|eom_id|>", err: "the JSON ends too early"},
		{name: "a stray tag", setup: "llama", answer: llamaLook + "; <|python_tag|>", err: "stray <|python_tag|>"},
		{name: "a reply that goes on with a message", setup: "llama", answer: "Hi<|eot_id|><|start_header_id|>user", err: "stray <|start_header_id|>"},
		{name: "an object that is no call is a reply", setup: "llama", answer: `{"answer": 5}`, want: says(`{"answer": 5}`)},

		{name: "a block may lack its end", setup: "blocks", answer: `<tool_call>{"arm": {"name": "look", "arguments": {}}}`,
			want: calls(look)},
		{name: "no robot among several in a flat action", setup: "blocks", answer: `<tool_call>{"name":"look","arguments":{}}</tool_call>`,
			want: calls(tools.Call{Name: "look", Arguments: protocol.Raw(`{}`), TargetRobotName: "robot"})},
		{name: "a flat action", setup: "blocks", answer: `<tool_call>{"name":"look","arguments":{},"target_robot":"arm"}</tool_call>`,
			want: calls(look)},
		{name: "other members of the object don't count", setup: "json", answer: `{"think":"x","say":"Hi","action":{}}`, want: says("Hi")},
		{name: "a robot among the arguments of an action", setup: "json", answer: `{"say":"","action":{"name":"look","arguments":{"target_robot":"base"}}}`,
			want: calls(base)},
		{name: "an unknown robot among the arguments of an action", setup: "json", answer: `{"say":"","action":{"name":"look","arguments":{"target_robot":"leg"}}}`,
			err: `unknown robot "leg"`},
		{name: "an action within a string", setup: "json", answer: `{"say":"","action":"{\"arm\":{\"name\":\"look\",\"arguments\":{}}}"}`,
			want: calls(look)},
	} {
		t.Run(test.setup+": "+test.name, func(t *testing.T) {
			s := setupOf(test.setup)
			s.o.MixedOutput = test.mixed
			f, _ := s.open(t)
			got, err := f.Parse(test.answer, catalogOf(t, f, sampleTools, "arm", "base"))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if test.want.CallForm == "" && len(test.want.ToolCalls) > 0 {
				test.want.CallForm = format.FormNative
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func setupOf(name string) setup {
	for _, s := range setups {
		if s.name == name {
			return s
		}
	}
	panic("no setup " + name)
}

// FuzzParse: no answer crashes a parser, and what is read is a valid decision.
func FuzzParse(f *testing.F) {
	for _, answer := range []string{
		"Hello", "<think>x</think>Hi", "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"target_robot\": \"arm\"}}\n</tool_call>",
		"<tool_call>\n<function=look>\n<parameter=target_robot>\narm\n</parameter>\n</function>\n</tool_call>",
		"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Hi",
		` to=functions.look<|channel|>commentary json<|message|>{"target_robot": "arm"}`,
		`<|python_tag|>{"name": "look", "parameters": {"target_robot": "arm"}}; {"type": "function", "function": {"name": "look"}}<|eom_id|>`,
		`{"say": "", "action": [{"arm": {"name": "look", "arguments": {}}}]}`, `<tool_call>{"arm": {"name": "look"`,
	} {
		f.Add(answer)
	}
	var formats []format.Format
	var catalogs []*format.Catalog
	for _, s := range setups {
		fm, _ := s.open(f)
		formats, catalogs = append(formats, fm), append(catalogs, catalogOf(f, fm, sampleTools, "arm", "base"))
	}
	f.Fuzz(func(t *testing.T, answer string) {
		for i, fm := range formats {
			d, err := fm.Parse(answer, catalogs[i])
			if err != nil {
				continue
			}
			if (d.Say == "") == (len(d.ToolCalls) == 0) {
				t.Errorf("%s: %q is read as %+v: neither a reply nor calls, or both", setups[i].name, answer, d)
			}
			for _, call := range d.ToolCalls {
				if call.Name == "" || call.TargetRobotName == "" || call.Arguments.Kind() != '{' || !call.Arguments.IsValid() {
					t.Errorf("%s: %q is read as the call %+v", setups[i].name, answer, call)
				}
			}
		}
	})
}

// FuzzHistoryReadsBack: a decision that a prompt shows in the model's own form
// is read back by the parser as the same decision.
func FuzzHistoryReadsBack(f *testing.F) {
	f.Add("Hello", "kitchen", 0.5, true)
	f.Add("a\n<b>", "line\nbreak\n", 1e20, false)
	type form struct {
		setup
		format.Format
	}
	var forms []form
	for _, name := range []string{"hermes", "tagged", "gpt-oss", "llama", "json"} {
		s := setupOf(name)
		fm, _ := s.open(f)
		forms = append(forms, form{s, fm})
	}
	f.Fuzz(func(t *testing.T, say, place string, speed float64, callIt bool) {
		say = strings.TrimSpace(say)
		if !utf8.ValidString(say) || !utf8.ValidString(place) || speed != speed || speed-speed != 0 {
			t.Skip("no JSON")
		}
		want := says(say)
		if callIt {
			want = calls(tools.Call{Name: "move_to", TargetRobotName: "arm",
				Arguments: protocol.Raw(fmt.Sprintf(`{"place":%s,"speed":%g}`, protocol.String(place), speed))})
		}
		if !callIt && (say == "" || strings.Contains(say, "<") || strings.HasPrefix(say, "{")) {
			t.Skip("not something that is said")
		}
		for _, fm := range forms {
			if fm.name == "tagged" && strings.Contains(place, "</parameter>") {
				continue // the form can't say it
			}
			content := memory.WriteDecision(want.Say, want.ToolCalls, false)
			mem := `{"history":[{"content":"x"},{"author":"MODEL","content":` + string(protocol.String(string(content))) + `}]}`
			in := newInput(t, fm.Format, mem, memory.System, "next", sampleTools, attributes)
			prompt, err := fm.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			answer := lastAnswer(t, fm.name, prompt.Text)
			got, err := fm.Parse(answer, in.Catalog)
			if err != nil {
				t.Fatalf("%s: %q: %v", fm.name, answer, err)
			}
			if want.CallForm = ""; len(want.ToolCalls) > 0 {
				want.CallForm = format.FormNative
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %q: %s", fm.name, answer, diff)
			}
		}
	})
}

// lastAnswer cuts the model's answer before the last message out of a prompt.
func lastAnswer(t *testing.T, name, prompt string) string {
	open, ends := "<|im_start|>assistant\n", []string{"<|im_end|>\n<|im_start|>user\n"}
	switch name {
	case "gpt-oss":
		open, ends = "<|start|>assistant", []string{"<|call|><|start|>functions.", "<|end|><|start|>user"}
	case "llama":
		open, ends = "assistant<|end_header_id|>\n\n", []string{"<|eot_id|><|start_header_id|>ipython", "<|eot_id|><|start_header_id|>user"}
	case "json":
		open, ends = "[assistant] ", []string{"\n[system] next"}
	}
	_, rest, ok := strings.Cut(prompt, open)
	for _, end := range ends {
		if at := strings.LastIndex(rest, end); ok && at >= 0 {
			return strings.TrimPrefix(rest[:at], "<think>\n\n</think>\n\n")
		}
	}
	t.Fatalf("%s: no answer in %q", name, prompt)
	return ""
}
