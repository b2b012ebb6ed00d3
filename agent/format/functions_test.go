//go:build !race

package format_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/llama/synth"
	"agentd/protocol"
)

// functions are tools of a chat. Both refer to definitions of their own.
var functions = []protocol.Raw{
	protocol.Raw(`{"name":"look","description":"Looks <there> & back.","parameters":{"type":"object","$defs":{"X":{"enum":["a<b"]}},"properties":{"at":{"$ref":"#/$defs/X"}},"required":["at"]}}`),
	protocol.Raw(`{"name":"count","parameters":{"type":"object","$defs":{"X":{"type":"integer"}},"properties":{"n":{"$ref":"#/$defs/X"}},"required":["n"]}}`),
}

func functionsOf(t testing.TB, f format.Format, chosen tools.Functions) *format.Catalog {
	t.Helper()
	chosen.Raw = functions
	set, err := tools.NormaliseFunctions(&chosen)
	if err != nil {
		t.Fatal(err)
	}
	return f.Catalog(set)
}

// TestChatsWithFunctionsAdmitWhatTheChatAllows: a reply, one call or several, without a robot and
// the name first.
func TestChatsWithFunctionsAdmitWhatTheChatAllows(t *testing.T) {
	const harmony = "<|channel|>commentary json<|message|>"
	type texts struct{ look, count, between, reply, before string }
	answers := map[string]texts{
		"hermes":           {"<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"a<b\"}}\n</tool_call>", "<tool_call>\n{\"name\": \"count\", \"arguments\": {\"n\": 5}}\n</tool_call>", "\n", "Hi", ""},
		"hermes, thinking": {"<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"a<b\"}}\n</tool_call>", "<tool_call>\n{\"name\": \"count\", \"arguments\": {\"n\": 5}}\n</tool_call>", "\n", "Hi", "<think>\nhm</think>\n\n"},
		"tagged":           {"<tool_call>\n<function=look>\n<parameter=at>\na<b\n</parameter>\n</function>\n</tool_call>", "<tool_call>\n<function=count>\n<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>", "\n", "Hi", ""},
		"tagged, thinking": {"<tool_call>\n<function=look>\n<parameter=at>\na<b\n</parameter>\n</function>\n</tool_call>", "<tool_call>\n<function=count>\n<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>", "\n", "Hi", "hm\n</think>\n\n"},
		"gpt-oss":          {" to=functions.look" + harmony + `{"at": "a<b"}`, " to=functions.count" + harmony + `{"n": 5}`, "<|call|><|start|>assistant", "<|channel|>final<|message|>Hi", ""},
		"llama":            {`{"name": "look", "parameters": {"at": "a<b"}}`, `{"name": "count", "parameters": {"n": 5}}`, "; ", "Hi", ""},
		"blocks":           {`<tool_call>{"name": "look", "arguments": {"at": "a<b"}}</tool_call>`, `<tool_call>{"name": "count", "arguments": {"n": 5}}</tool_call>`, "", "Hi", "<think>\nhm</think>\n\n"},
		"json":             {`{"say": "", "action": {"name": "look", "arguments": {"at": "a<b"}}}`, `{"say": "", "action": {"name": "count", "arguments": {"n": 5}}}`, ",", `{"say": "Hi", "action": {}}`, ""},
	}
	// A text before the call of look, which the answer has beside the call.
	introduced := map[string]string{
		"llama":   "I look. <|python_tag|>",
		"gpt-oss": "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant",
	}
	several := func(s string, a texts) string {
		switch s {
		case "blocks":
			return `<tool_call>[{"name": "look", "arguments": {"at": "a<b"}}, {"name": "count", "arguments": {"n": 5}}]</tool_call>`
		case "json":
			return `{"say": "", "action": [{"name": "look", "arguments": {"at": "a<b"}}, {"name": "count", "arguments": {"n": 5}}]}`
		}
		return a.look + a.between + a.count
	}
	for _, s := range setups {
		f, k := s.open(t)
		a := answers[s.name]
		for _, test := range []struct {
			name             string
			chosen           tools.Functions
			look, two, reply bool
		}{
			{"any", tools.Functions{}, true, s.name != "gpt-oss", true}, // it has one call at a time
			{"one call", tools.Functions{OneCall: true}, true, false, true},
			{"after a result", tools.Functions{MayEnd: true}, true, s.name != "gpt-oss", true},
			{"required", tools.Functions{MustCall: true}, true, s.name != "gpt-oss", false},
			{"count alone", tools.Functions{MustCall: true, OneCall: true, Only: []string{"count"}}, false, false, false},
			{"both by name", tools.Functions{MustCall: true, Only: []string{"count", "look"}}, true, s.name != "gpt-oss", false},
		} {
			t.Run(s.name+", "+test.name, func(t *testing.T) {
				c := functionsOf(t, f, test.chosen)
				grammar, err := c.Grammar()
				if err != nil {
					t.Fatal(err)
				}
				for text, want := range map[string]bool{
					a.count: true, a.look: test.look, several(s.name, a): test.two, a.reply: test.reply,
					strings.Replace(a.look, "a<b", "5", 1): false, strings.Replace(a.count, "5", "a<b", 1): false,
				} {
					text = a.before + text
					if prefix, ok := admits(t, k, grammar, text); ok != want {
						t.Errorf("admits %t after %q: %q", ok, prefix, text)
					}
					d, err := f.Parse(text, c)
					if want && err != nil {
						t.Errorf("Parse(%q): %v", text, err)
					}
					for _, call := range d.ToolCalls {
						if call.TargetRobotName != "" {
							t.Errorf("Parse(%q) = %+v", text, d)
						}
					}
				}
				if s.name != "json" { // it has no place for nothing, nor for both
					text := a.before + strings.TrimSuffix(a.reply, "Hi")
					if prefix, ok := admits(t, k, grammar, text); ok != test.chosen.MayEnd {
						t.Errorf("admits %t after %q: %q", ok, prefix, text)
					}
					if _, err := f.Parse(text, c); (err == nil) != test.chosen.MayEnd {
						t.Errorf("Parse(%q): %v", text, err)
					}
					before, special := introduced[s.name]
					if !special {
						before = "I look.\n"
					}
					text = a.before + before + a.look
					want := test.look && !test.chosen.MustCall
					if prefix, ok := admits(t, k, grammar, text); ok != want {
						t.Errorf("admits %t after %q: %q", ok, prefix, text)
					}
					if d, err := f.Parse(text, c); want && (err != nil || d.Say != "I look." || len(d.ToolCalls) != 1 || d.CallForm != format.FormNative) {
						t.Errorf("Parse(%q) = %+v, %v", text, d, err)
					}
				}
				eachNoise(t, f, k, grammar, func(answer string) {
					if d, err := f.Parse(answer, c); err != nil || len(d.ToolCalls) == 0 && test.chosen.MustCall || len(d.ToolCalls) > 1 && test.chosen.OneCall {
						t.Errorf("Parse(%q) = %+v, %v", answer, d, err)
					}
				})
			})
		}
	}
}

func TestAnswersBesideFunctionsHaveTheirSchema(t *testing.T) {
	const answer = `{"outcome": "corrected", "why": "a", "calls": [{"name": "move", "arguments": {"to": "x", "n": 5}}]}`
	before := map[string]string{
		"hermes, thinking": "<think>\nhm</think>\n\n", "tagged, thinking": "hm\n</think>\n\n", "gpt-oss": "<|channel|>final<|message|>", "blocks": "<think>\nhm</think>\n\n",
	}
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			f, k := s.open(t)
			c := functionsOf(t, f, tools.Functions{})
			c.Set.Answer = coachAnswer(t).Answer
			grammar, err := c.Grammar()
			if s.name == "json" {
				if err == nil || !strings.Contains(err.Error(), "no place for an answer of a schema") {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for text, want := range map[string]bool{answer: true, "Hi": false, strings.Replace(answer, "5", "true", 1): false} {
				if prefix, ok := admits(t, k, grammar, before[s.name]+text); ok != want {
					t.Errorf("admits %t after %q: %q", ok, prefix, text)
				}
			}
			eachNoise(t, f, k, grammar, func(text string) {
				if d, err := f.Parse(text, c); err == nil && len(d.ToolCalls) > 0 {
					return
				}
				if say, err := f.ParseChat(text); err != nil || c.Set.CheckAnswer(say) != nil {
					t.Errorf("%q is neither a call nor a value: %q, %v", text, say, err)
				}
			})
		})
	}
}

// calledChat has several calls, their results, and a call alone.
var calledChat = format.Chat{
	System: "Be brief.",
	Messages: []format.ChatMessage{
		{Text: "Look and count."},
		{Model: true, Text: "I look.", Calls: []tools.Call{{Name: "look", Arguments: protocol.Raw(`{"at":"a<b"}`)}, {Name: "count", Arguments: protocol.Raw(`{"n":5}`)}}},
		{Of: "look", Text: "A <cup> & more"}, {Of: "count", Text: `{"n": 5}`},
		{Model: true, Calls: []tools.Call{{Name: "count", Arguments: protocol.Raw(`{"n":6}`)}}},
		{Of: "count", Text: "six"},
	},
}

func TestChatsWithCallsEqualTheTemplates(t *testing.T) {
	for _, model := range []struct{ file, arch, format string }{
		{"Qwen-Qwen3-0.6B.jinja", synth.Qwen3, format.Qwen},
		{"Qwen-Qwen2.5-7B-Instruct.jinja", synth.Qwen3, format.Qwen},
		{"Qwen3.5-4B.jinja", synth.Qwen3, format.Qwen},
		{"Qwen3-Coder.jinja", synth.Qwen3, format.Qwen},
		{"openai-gpt-oss-120b.jinja", synth.GPTOSS, format.GPTOSS},
		{"meta-llama-Llama-3.1-8B-Instruct.jinja", synth.Llama, format.Llama},
	} {
		t.Run(model.file, func(t *testing.T) {
			source := reference(t, model.file)
			kit := newKit(t, model.arch, source)
			o := format.Options{ChatTemplate: source, ModelAPI: kit}
			if model.format == format.GPTOSS {
				o.ReasoningEffort = "medium"
			}
			f := newFormat(t, model.format, o)
			chat := calledChat
			chat.Catalog = functionsOf(t, f, tools.Functions{OneCall: true})
			prompt, err := f.Render(&format.Input{Chat: &chat})
			if err != nil {
				t.Fatal(err)
			}
			want, err := kit.RenderTemplate(referenceVars(prompt, model.format, false))
			if err != nil {
				t.Fatal(err)
			}
			want = regexp.MustCompile(`Current date: [0-9-]+\n`).ReplaceAllString(want, "")
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(text(t, prompt, kit.specials), "\n")); diff != "" {
				t.Errorf("template (-) and native (+) differ:\n%s", diff)
			}
		})
	}
}

func TestSystemMessageAloneWithToolsHasAPrompt(t *testing.T) {
	for _, s := range setups {
		f, _ := s.open(t)
		chat := format.Chat{System: "Look.", Functions: tools.Functions{Raw: functions}, Catalog: functionsOf(t, f, tools.Functions{})}
		if p, err := f.Render(&format.Input{Chat: &chat}); err != nil || !strings.Contains(p.Text, "Looks <there>") {
			t.Errorf("%s: %v, %v", s.name, p, err)
		}
	}
}

func TestReasoningBeforeSeveralCallsIsShownOnce(t *testing.T) {
	f, _ := setupOf("gpt-oss").open(t)
	chat := calledChat
	chat.Messages = slices.Clone(chat.Messages)
	chat.Messages[1].Reasoning = "Two tools."
	chat.Catalog = functionsOf(t, f, tools.Functions{})
	prompt, err := f.Render(&format.Input{Chat: &chat})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(prompt.Text, "<|channel|>analysis<|message|>Two tools.<|end|><|start|>assistant to=functions.look<"); n != 1 {
		t.Errorf("%d times in %s", n, prompt.Text)
	}
}

func TestChatsWithCallsInTemplatesWithoutRoles(t *testing.T) {
	const plain = `{% for m in messages %}[{{ m.role }}] {{ m.content }}` + "\n" + `{% endfor %}`
	k := newKit(t, synth.Qwen3, plain)
	for style, want := range map[string]string{
		format.StyleBlocks: "[user] Look and count.\n[assistant] I look.<tool_call>\n" +
			`[{"name": "look", "arguments": {"at": "a<b"}}, {"name": "count", "arguments": {"n": 5}}]` + "\n</tool_call>\n" +
			"[user] Result of look:\nA <cup> & more\n[user] Result of count:\n{\"n\": 5}\n[assistant] <tool_call>\n" +
			`{"name": "count", "arguments": {"n": 6}}` + "\n</tool_call>\n[user] Result of count:\nsix\n",
		format.StyleJSON: "[user] Look and count.\n[assistant] " +
			`{"say": "I look.", "action": [{"name": "look", "arguments": {"at": "a<b"}}, {"name": "count", "arguments": {"n": 5}}]}` + "\n" +
			"[user] Result of look:\nA <cup> & more\n[user] Result of count:\n{\"n\": 5}\n[assistant] " +
			`{"say": "", "action": {"name": "count", "arguments": {"n": 6}}}` + "\n[user] Result of count:\nsix\n",
	} {
		for _, offered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, tools are offered %t", style, offered), func(t *testing.T) {
				f := newFormat(t, format.Template, format.Options{ChatTemplate: plain, OutputStyle: style, ModelAPI: k})
				chat, before := calledChat, "[system] Be brief.\n"
				if offered {
					chat.Catalog = functionsOf(t, f, tools.Functions{})
					before = "[system] Be brief.\n\n# Output\n"
				}
				prompt, err := f.Render(&format.Input{Chat: &chat})
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(prompt.Text, before) || !strings.HasSuffix(prompt.Text, want) {
					t.Errorf("got %s", prompt.Text)
				}
				if shown := strings.Contains(prompt.Text, `{"name": "look", "description": "Looks <there> & back.", "parameters": {`); shown != offered {
					t.Errorf("the tools are shown %t", shown)
				}
			})
		}
	}
}

func TestChatsWithoutASystemMessageHaveNone(t *testing.T) {
	for name, test := range map[string]struct{ format, template, want string }{
		"hermes":                {format.Qwen, "Qwen-Qwen3-0.6B.jinja", "<|im_start|>user\nHi<|im_end|>"},
		"a template":            {format.Template, `{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}`, "[user] Hi"},
		"one without that role": {format.Template, `{% for m in messages if m.role != 'system' %}[{{ m.role }}] {{ m.content }}{% endfor %}`, "[user] Hi"},
	} {
		if strings.HasSuffix(test.template, ".jinja") {
			test.template = reference(t, test.template)
		}
		f := newFormat(t, test.format, format.Options{ChatTemplate: test.template, ModelAPI: newKit(t, synth.Qwen3, test.template)})
		prompt, err := f.Render(&format.Input{Chat: &format.Chat{Messages: []format.ChatMessage{{Text: "Hi"}}}})
		if err != nil || !strings.HasPrefix(prompt.Text, test.want) {
			t.Errorf("%s: %+v, %v", name, prompt, err)
		}
	}
}

func TestASystemMessageAloneIsTheUsersForATemplate(t *testing.T) {
	const template = `{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}`
	f := newFormat(t, format.Template, format.Options{ChatTemplate: template, ModelAPI: newKit(t, synth.Qwen3, template)})
	if prompt, err := f.Render(&format.Input{Chat: &format.Chat{System: "Hi"}}); err != nil || prompt.Text != "[user] Hi" {
		t.Errorf("%+v, %v", prompt, err)
	}
}

func TestUnusableFunctionsAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		raw  []string
		want string
	}{
		"a name twice": {[]string{`{"name":"a"}`, `{"name":"a"}`}, `tools[1]: the name "a" is already that of tools[0]`},
		"a reference that leads nowhere": {
			[]string{`{"name":"a","parameters":{"type":"object","properties":{"x":{"$ref":"#/$defs/X"}}}}`}, "tools[0]: a: its parameters are not a usable JSON Schema",
		},
	} {
		chosen := tools.Functions{}
		for _, raw := range test.raw {
			chosen.Raw = append(chosen.Raw, protocol.Raw(raw))
		}
		if _, err := tools.NormaliseFunctions(&chosen); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
