package format_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent/format"
	"agentd/agent/internal/rawjson"
	"agentd/agent/memory"
	"agentd/llama/synth"
	"agentd/protocol"
)

type referenceInput struct {
	name, memory string
	author       memory.Author
	instruction  string
	tools        []protocol.Raw
	attributes   string
}

// referenceInputs are inputs on which native prompts must equal the templates'.
var referenceInputs = []referenceInput{
	{"a first instruction without tools", `{}`, memory.User, "Hello", nil, `{}`},
	{"a first instruction with tools", `{}`, memory.User, "Bring the cup", sampleTools, attributes},
	{"a tool result amid a task", history, memory.System, "a cup is seen", sampleTools, attributes},
	{"a tool result that is JSON", history, memory.System, `{"seen": ["cup"], "previous_tool_call": {}, "n": 0.25}`, sampleTools, `{}`},
	{"a user who breaks into a task", history, memory.User, "Stop!", sampleTools, attributes},
	{"a say beside calls", `{"history":[{"content":"x"},{"author":"MODEL","content":"{\"say\":\"I go\",\"action\":{\"r\":{\"name\":\"look\",\"arguments\":{}}}}"}]}`,
		memory.System, "ok", sampleTools, `{}`},
	{"a call without a result before another decision", `{"history":[{"content":"x"},{"author":"MODEL","content":"{\"action\":{\"r\":{\"name\":\"look\",\"arguments\":{}}}}"},{"author":"MODEL","content":"Seen."},{"content":"y"}]}`,
		memory.System, "ok", sampleTools, `{}`},
	{"a status before anything", `{}`, memory.System, "battery low", sampleTools, `{}`},
}

// TestNativePromptsEqualTheTemplates compares native prompts, byte for byte,
// with what the models' own templates make of the same messages and tools.
func TestNativePromptsEqualTheTemplates(t *testing.T) {
	for _, model := range []struct {
		file, arch, format string
		think              bool
	}{
		{"Qwen-Qwen3-0.6B.jinja", synth.Qwen3, format.Qwen, false},
		{"Qwen-Qwen3-0.6B.jinja", synth.Qwen3, format.Qwen, true},
		{"Qwen-Qwen2.5-7B-Instruct.jinja", synth.Qwen3, format.Qwen, false},
		{"Qwen3.5-4B.jinja", synth.Qwen3, format.Qwen, false},
		{"Qwen3.5-4B.jinja", synth.Qwen3, format.Qwen, true},
		{"Qwen3-Coder.jinja", synth.Qwen3, format.Qwen, false},
		{"openai-gpt-oss-120b.jinja", synth.GPTOSS, format.GPTOSS, false},
		{"meta-llama-Llama-3.1-8B-Instruct.jinja", synth.Llama, format.Llama, false},
		{"meta-llama-Llama-3.2-3B-Instruct.jinja", synth.Llama, format.Llama, false},
		{"meta-llama-Llama-3.3-70B-Instruct.jinja", synth.Llama, format.Llama, false},
	} {
		source := reference(t, model.file)
		kit := newKit(t, model.arch, source)
		o := format.Options{ChatTemplate: source, EnableThinking: model.think, ModelAPI: kit}
		if model.format == format.GPTOSS {
			o.ReasoningEffort = "medium"
		}
		f := newFormat(t, model.format, o)
		inputs := referenceInputs
		if model.format == format.Llama { // others refuse it, or show it as it is
			inputs = append(slices.Clip(inputs), referenceInput{"a history that begins with a call",
				`{"history":[{"author":"MODEL","content":"{\"action\":{\"r\":{\"name\":\"look\",\"arguments\":{}}}}"}]}`,
				memory.System, "ok", sampleTools, `{}`})
		}
		for _, in := range inputs {
			t.Run(fmt.Sprintf("%s, thinking %t: %s", model.file, model.think, in.name), func(t *testing.T) {
				input := newInput(t, f, in.memory, in.author, in.instruction, in.tools, in.attributes)
				prompt, err := f.Render(input)
				if err != nil {
					t.Fatal(err)
				}
				got := text(t, prompt, kit.specials)
				vars := referenceVars(prompt, model.format, model.think)
				want, err := kit.RenderTemplate(vars)
				if err != nil {
					t.Fatal(err)
				}
				want = regexp.MustCompile(`Current date: [0-9-]+\n`).ReplaceAllString(want, "")
				if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
					t.Errorf("template (-) and native (+) differ:\n%s", diff)
				}
			})
		}
	}
}

// referenceVars are the template's variables for the messages and tools of a
// prompt: what the prompt says it was made of.
func referenceVars(p *format.Prompt, name string, think bool) []byte {
	messages := []protocol.Raw{}
	for m := range protocol.Elements(p.Messages) {
		switch name {
		case format.GPTOSS:
			messages = append(messages, harmonyMessages(m)...)
			continue
		case format.Llama:
			messages = append(messages, llamaMessage(m))
			continue
		}
		if role, _ := protocol.Get(m, "role"); string(role) == `"assistant"` {
			if _, ok := protocol.Get(m, "reasoning_content"); !ok { // or a say's own tags are taken for thoughts
				m = protocol.AppendMember(m, "reasoning_content", protocol.Raw(`""`))
			}
		}
		messages = append(messages, m)
	}
	vars := []byte(`{"messages":[`)
	for i, m := range messages {
		if i > 0 {
			vars = append(vars, ',')
		}
		vars = append(vars, m...)
	}
	vars = append(vars, `],"add_generation_prompt":true`...)
	if len(p.Tools) > len("[]") {
		vars = append(append(vars, `,"tools":`...), p.Tools...)
	}
	if name == format.Llama {
		vars = append(vars, `,"date_string":"26 Jul 2024"`...)
	}
	return fmt.Appendf(vars, `,"enable_thinking":%t,"reasoning_effort":"medium"}`, think)
}

// llamaMessage puts a message into the form that Llama's templates take: a result in
// JSON as such, and as content what they can't show otherwise, several calls and calls
// beside a text.
func llamaMessage(m protocol.Raw) protocol.Raw {
	content, _ := protocol.Get(m, "content")
	said, _ := protocol.Text(content)
	if role, _ := protocol.Get(m, "role"); string(role) == `"tool"` && strings.HasPrefix(said, "{") {
		return protocol.SetMember(m, "content", protocol.Raw(said))
	}
	calls, _ := protocol.Get(m, "tool_calls")
	var list []string
	for e := range protocol.Elements(calls) {
		function, _ := protocol.Get(e, "function")
		name, _ := protocol.Get(function, "name")
		arguments, _ := protocol.Get(function, "arguments")
		list = append(list, fmt.Sprintf(`{"name": %s, "parameters": %s}`, name, rawjson.AppendSpaced(nil, arguments)))
	}
	if len(list) == 0 || (len(list) == 1 && said == "") {
		return m
	}
	said += "<|python_tag|>" + strings.Join(list, "; ")
	return protocol.SetMember(protocol.DeleteMember(m, "tool_calls"), "content", protocol.String(said))
}

// harmonyMessages puts a message into the form that the gpt-oss template takes.
func harmonyMessages(m protocol.Raw) []protocol.Raw {
	content, _ := protocol.Get(m, "content")
	said, _ := protocol.Text(content)
	role, _ := protocol.Get(m, "role")
	switch string(role) {
	case `"tool"`:
		if strings.HasPrefix(strings.TrimSpace(said), "{") {
			return []protocol.Raw{protocol.SetMember(m, "content", protocol.Raw(said))}
		}
	case `"assistant"`:
		calls, ok := protocol.Get(m, "tool_calls")
		if !ok {
			return []protocol.Raw{m}
		}
		var out []protocol.Raw
		if said != "" {
			out = append(out, protocol.Raw(`{"role":"assistant","content":`+string(content)+`}`))
		}
		n := 0
		for range protocol.Elements(calls) {
			n++
		}
		if n > 1 {
			calls = parallelCall(calls)
		}
		call := protocol.Raw(`{"role":"assistant","tool_calls":` + string(calls) + `}`)
		if thinking, ok := protocol.Get(m, "reasoning_content"); ok {
			call = protocol.AppendMember(call, "thinking", thinking)
		}
		return append(out, call)
	}
	return []protocol.Raw{m}
}

// parallelCall is one call of the function for several.
func parallelCall(calls protocol.Raw) protocol.Raw {
	list := protocol.Raw(`[]`)
	for e := range protocol.Elements(calls) {
		function, _ := protocol.Get(e, "function")
		name, _ := protocol.Get(function, "name")
		arguments, _ := protocol.Get(function, "arguments")
		robot, _ := protocol.Get(arguments, "target_robot")
		one := fmt.Sprintf(`{"name":%s,"arguments":%s,"target_robot":%s}`, name, protocol.DeleteMember(arguments, "target_robot"), robot)
		if len(list) > 2 {
			one = "," + one
		}
		list = append(list[:len(list)-1], one+"]"...)
	}
	return protocol.Raw(`[{"function":{"name":"call_in_parallel","arguments":{"calls":` + string(list) + `}}}]`)
}
