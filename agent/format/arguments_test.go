package format_test

import (
	"strings"
	"testing"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/protocol"
)

// ofLibrary is a schema as libraries make it of a type.
const ofLibrary = `{"$ref":"#/definitions/Go","definitions":{"Go":{"type":"object","properties":{"to":{"type":"string"},"fast":{"type":"boolean"}},"required":["to"],"additionalProperties":false}},"$schema":"http://json-schema.org/draft-07/schema#"}`

// TestArgumentsThatGrammarsAdmit states what of a schema's arguments a call may have,
// and what only the check knows. The arguments belong to a call in JSON.
func TestArgumentsThatGrammarsAdmit(t *testing.T) {
	const robot = `"target_robot": "a"`
	for _, test := range []struct{ name, parameters, yes, no, checked string }{ // arguments one a line
		{
			"no integer begins with a zero", `{"type":"object","properties":{"x":{"type":"integer","maximum":-5},"y":{"type":"integer","maximum":-1}},"required":["x","y"]}`,
			`{"x": -5, "y": -1, ROBOT}
			 {"x": -9, "y": -10, ROBOT}
			 {"x": -10, "y": -4321, ROBOT}`,
			`{"x": -05, "y": -1, ROBOT}
			 {"x": -5, "y": -01, ROBOT}
			 {"x": -4, "y": -1, ROBOT}
			 {"x": -5, "y": 0, ROBOT}`, "",
		},
		{
			"names of additional members are JSON", `{"type":"object","properties":{"ab":{"type":"integer"},"q\"x":{"type":"integer"},"b-":{"type":"integer"}},"additionalProperties":true}`,
			`{ROBOT, "ac": 1}
			 {ROBOT, "abc": 1}
			 {ROBOT, "ax\n\\": 1}
			 {"ab": 1, "q\"x": 2, "b-": 3, ROBOT, "é": 1, "c": {}}`,
			`{ROBOT, "\": 1}
			 {ROBOT, "\x": 1}
			 {ROBOT, "a\": 1}
			 {ROBOT, "a	b": 1}
			 {ROBOT, "q"y": 1}
			 {ROBOT, "c": 1, "ab": 2}
			 {ROBOT, "ab": 1, "ab": 2}`, "",
		},
		{
			"a parameter is no part of another rule", `{"type":"object","properties":{"late":{"enum":["x","y"]}},"required":["late"]}`,
			`{"late": "x", ROBOT}`,
			`{"late": x, ROBOT}
			 {"late": "z", ROBOT}`, "",
		},
		{
			"a referenced schema is that of the arguments", ofLibrary,
			`{"to": "x", ROBOT}
			 {"to": "x", "fast": true, ROBOT}`,
			`{"to": "x"}
			 {ROBOT}
			 {"definitions": {}, ROBOT}
			 {"to": "x", ROBOT, "more": 1}`, "",
		},
		{
			"parts of a schema hold together", `{"properties":{"x":{"type":"integer"}},"required":["x"],"allOf":[{"$ref":"#/$defs/y"},{"properties":{"x":{"minimum":5}}}],"$defs":{"y":{"properties":{"y":{"enum":["u"]}},"required":["y"]}}}`,
			`{"x": 5, "y": "u", ROBOT}`,
			`{"x": 5, ROBOT}
			 {"y": "u", ROBOT}
			 {"x": 5, "y": "v", ROBOT}
			 {"x": 4, "y": "u", ROBOT}`, "",
		},
		{
			"a choice of what is required is checked", `{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"oneOf":[{"required":["x"]},{"required":["y"]}]}`,
			`{"x": 1, ROBOT}
			 {"y": 1, ROBOT}`,
			`5
			 {"x": 1}
			 {ROBOT}
			 {"z": 1, ROBOT}`,
			`{"x": 1, "y": 1, ROBOT}`,
		},
		{
			"arguments are an object whatever else the type names", `{"type":["object","null"],"properties":{}}`,
			`{ROBOT}`, `null
			 {}`, "",
		},
	} {
		for _, form := range []struct{ setup, before, after string }{
			{"hermes", "<tool_call>\n{\"name\": \"t\", \"arguments\": ", "}\n</tool_call>"},
			{"gpt-oss", " to=functions.t<|channel|>commentary json<|message|>", ""},
			{"gpt-oss", "<|channel|>commentary to=functions.t json<|message|>", ""},
			{"llama", `<|python_tag|>{"name": "t", "parameters": `, "}"},
		} {
			t.Run(test.name+", "+form.setup, func(t *testing.T) {
				f, k, c := toolOf(t, form.setup, test.parameters)
				grammar, err := c.Grammar()
				if err != nil {
					t.Fatal(err)
				}
				for _, arguments := range lines(test.yes) {
					answer := form.before + strings.Replace(arguments, "ROBOT", robot, 1) + form.after
					if prefix, ok := admits(t, k, grammar, answer); !ok {
						t.Errorf("the grammar stops after %q of %q", prefix, answer)
					}
					if _, err := f.Parse(answer, c); err != nil {
						t.Errorf("Parse(%q): %v", answer, err)
					}
				}
				for _, arguments := range lines(test.checked) {
					answer := form.before + strings.Replace(arguments, "ROBOT", robot, 1) + form.after
					if prefix, ok := admits(t, k, grammar, answer); !ok {
						t.Errorf("the grammar stops after %q of %q", prefix, answer)
					}
					if d, err := f.Parse(answer, c); err == nil {
						t.Errorf("Parse(%q) = %+v, want an error", answer, d)
					}
				}
				for _, arguments := range lines(test.no) {
					answer := form.before + strings.Replace(arguments, "ROBOT", robot, 1) + form.after
					if _, ok := admits(t, k, grammar, answer); ok {
						t.Errorf("the grammar admits %q", answer)
					}
				}
			})
		}
	}
}

// TestSchemasOfLibrariesAreShownWithTheRobot: in each form the model sees all parameters
// in one place, and its calls have them.
func TestSchemasOfLibrariesAreShownWithTheRobot(t *testing.T) {
	for _, test := range []struct{ setup, shown, call string }{
		{
			"hermes", `"properties": {"to": {"type": "string"}, "fast": {"type": "boolean"}, "target_robot": {"type": "string"`,
			"<tool_call>\n{\"name\": \"t\", \"arguments\": {\"to\": \"x\", \"target_robot\": \"b\"}}\n</tool_call>",
		},
		{
			"tagged", "<parameter>\n<name>to</name>\n<type>string</type>\n</parameter>\n<parameter>\n<name>fast</name>",
			"<tool_call>\n<function=t>\n<parameter=to>\nx\n</parameter>\n<parameter=target_robot>\nb\n</parameter>\n</function>\n</tool_call>",
		},
		{
			"llama", "\"properties\": {\n                \"to\": {\n                    \"type\": \"string\"\n                },",
			`{"name": "t", "parameters": {"to": "x", "target_robot": "b"}}`,
		},
		{
			"gpt-oss", "type t = (_: {\nto: string,\nfast?: boolean,\n// Robot that executes this call.\ntarget_robot: \"a\" | \"b\",\n}) => any;",
			` to=functions.t<|channel|>commentary json<|message|>{"to":"x","target_robot":"b"}`,
		},
		{
			"gpt-oss", "call_in_parallel",
			` to=functions.call_in_parallel<|channel|>commentary json<|message|>{"calls":[{"name":"t","arguments":{"to":"x"},"target_robot":"b"},{"name":"t","arguments":{"to":"y"},"target_robot":"a"}]}`,
		},
		{
			"json", `[]`, // this template shows the tools as they came
			`{"say": "", "action": {"b": {"name": "t", "arguments": {"to": "x"}}}}`,
		},
	} {
		t.Run(test.setup, func(t *testing.T) {
			f, k, c := toolOf(t, test.setup, ofLibrary)
			in := newInput(t, f, `{}`, memory.User, "Go", nil, `{}`)
			in.Catalog = c
			prompt, err := f.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(prompt.Text, test.shown) {
				t.Errorf("%q is missing from\n%s", test.shown, prompt.Text)
			}
			grammar, err := c.Grammar()
			if err != nil {
				t.Fatal(err)
			}
			if prefix, ok := admits(t, k, grammar, test.call); !ok {
				t.Errorf("the grammar stops after %q of %q", prefix, test.call)
			}
			d, err := f.Parse(test.call, c)
			if err != nil || d.ToolCalls[0].TargetRobotName != "b" || string(d.ToolCalls[0].Arguments) != `{"to":"x"}` {
				t.Errorf("Parse(%q) = %+v, %v", test.call, d, err)
			}
		})
	}
}

// toolOf is a setup's format with one tool t for the robots a and b.
func toolOf(t *testing.T, name, parameters string) (format.Format, *kit, *format.Catalog) {
	t.Helper()
	f, k := setupOf(name).open(t)
	return f, k, catalogOf(t, f, []protocol.Raw{protocol.Raw(`{"name":"t","description":"D","parameters":` + parameters + `}`)}, "a", "b")
}

// lines are the lines of a text without the space around them.
func lines(text string) (list []string) {
	for line := range strings.Lines(text) {
		list = append(list, strings.TrimSpace(line))
	}
	return list
}
