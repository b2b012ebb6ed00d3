//go:build !race

package format_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/llama/synth"
	"agentd/protocol"
)

// TestCallsOfToolsThatAreGone: a past call is shown with its own arguments and the
// robot, also where the tool that had them is no longer offered.
func TestCallsOfToolsThatAreGone(t *testing.T) {
	const (
		aim   = `"r1":{"name":"aim","arguments":{"target_robot":"enemy","executing_robot":2}}`
		other = `"r2":{"name":"wave","arguments":{}}`
	)
	for _, test := range []struct{ setup, action, want string }{
		{"hermes", aim, `{"name": "aim", "arguments": {"target_robot": "enemy", "executing_robot": 2, "executing_robot_2": "r1"}}`},
		{"hermes", other, `{"name": "wave", "arguments": {"target_robot": "r2"}}`},
		{"tagged", aim, "<function=aim>\n<parameter=target_robot>\nenemy\n</parameter>\n<parameter=executing_robot>\n2\n</parameter>\n<parameter=executing_robot_2>\nr1\n</parameter>"},
		{"gpt-oss", aim, ` to=functions.aim<|channel|>commentary json<|message|>{"target_robot": "enemy", "executing_robot": 2, "executing_robot_2": "r1"}`},
		{"llama", other, "assistant<|end_header_id|>\n\n" + `{"name": "wave", "parameters": {"target_robot": "r2"}}<|eot_id|>`},
		{
			"llama", aim + "," + other,
			`<|python_tag|>{"name": "aim", "parameters": {"target_robot": "enemy", "executing_robot": 2, "executing_robot_2": "r1"}}; {"name": "wave", "parameters": {"target_robot": "r2"}}<|eot_id|>`,
		},
		{
			"gpt-oss", aim + "," + other,
			`{"calls": [{"name": "aim", "arguments": {"target_robot": "enemy", "executing_robot": 2}, "target_robot": "r1"}, {"name": "wave", "arguments": {}, "target_robot": "r2"}]}`,
		},
		{"gpt-oss", `"":{"name":"wave","arguments":{"":1}},` + other, `{"calls": [{"name": "wave", "arguments": {"": 1}, "target_robot": ""}, `},
	} {
		f, _ := setupOf(test.setup).open(t)
		mem := `{"history":[{"content":"x"},{"author":"MODEL","content":` + string(protocol.String(`{"action":{`+test.action+`}}`)) + `}]}`
		prompt, err := f.Render(newInput(t, f, mem, memory.System, "ok", sampleTools, attributes))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(prompt.Text, test.want) {
			t.Errorf("%s: %s is missing from\n%s", test.setup, test.want, prompt.Text)
		}
	}
}

// A call without a reported result counts as completed.
func TestEveryCallHasAResult(t *testing.T) {
	const call = `{"author":"MODEL","content":"{\"action\":{\"a\":{\"name\":\"look\",\"arguments\":{}}}}"}`
	for _, test := range []struct{ next, history, want string }{
		{"its result", call + `,{"author":"SYSTEM","content":"seen"}`, "assistant tool:seen user"},
		{"a user", call + `,{"content":"u"}`, `assistant tool:{"status": "completed"} user:u user`},
		{"a reply", call + `,{"author":"MODEL","content":"said"}`, `assistant tool:{"status": "completed"} assistant:said user`},
		{"another call", call + `,` + call, `assistant tool:{"status": "completed"} assistant tool:{"status": "completed"} user`},
		{"the instruction", call, `assistant tool:{"status": "completed"} user`},
	} {
		for _, setup := range []string{"hermes", "gpt-oss", "llama"} {
			f, _ := setupOf(setup).open(t)
			prompt, err := f.Render(newInput(t, f, `{"history":[`+test.history+`]}`, memory.User, "", sampleTools, `{}`))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for m := range protocol.Elements(prompt.Messages) {
				role, _ := protocol.Get(m, "role")
				content, _ := protocol.Get(m, "content")
				name, _ := protocol.Text(role)
				if said, _ := protocol.Text(content); said != "" && name != "system" {
					name += ":" + said
				}
				got = append(got, name)
			}
			want := "system " + test.want
			if setup == "llama" {
				want = "system user " + test.want // the tools have a separate message
			}
			if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
				t.Errorf("%s, %s: %s", setup, test.next, diff)
			}
		}
	}
}

// TestTemplatesWithoutASystemMessage: where a template refuses it or leaves it out, its
// text begins the first user message.
func TestTemplatesWithoutASystemMessage(t *testing.T) {
	const alternating = `{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }}] {{ m.content }}
{% endfor %}`
	for name, template := range map[string]string{
		"one that refuses it":    alternating,
		"one that leaves it out": `{% for m in messages if m.role != 'system' %}[{{ m.role }}] {{ m.content }}` + "\n{% endfor %}",
		"Gemma's":                reference(t, "google-gemma-2-2b-it.jinja"),
	} {
		k := newKit(t, synth.Qwen3, template)
		f := newFormat(t, format.Template, format.Options{ChatTemplate: template, ModelAPI: k})
		roles := strings.NewReplacer("<|endoftext|>", "", "<start_of_turn>", "[", "<end_of_turn>", "", "user\n", "user] ", "model\n", "assistant] ")
		for _, test := range []struct{ name, history, want string }{
			{"a first instruction", ``, "[user] SYSTEM\n\nGo"},
			{"a history", `{"content":"u"},{"author":"MODEL","content":"m"}`, "[user] SYSTEM\n\nu\n[assistant] m\n[user] Go"},
			{"a history that begins with the model", `{"author":"MODEL","content":"m"}`, "[user] SYSTEM\n[assistant] m\n[user] Go"},
		} {
			t.Run(fmt.Sprintf("%s, %s", name, test.name), func(t *testing.T) {
				prompt, err := f.Render(newInput(t, f, `{"memory_list":["R"],"history":[`+test.history+`]}`, memory.User, "Go", sampleTools, attributes))
				if err != nil {
					t.Fatal(err)
				}
				got := text(t, prompt, k.specials)
				if template != alternating {
					got = roles.Replace(got)
				}
				begins := strings.Index(got, "You are a helpful assistant")
				ends := strings.Index(got, `"report"`)
				if begins < 0 || ends < begins {
					t.Fatalf("the system's text is missing from\n%s", got)
				}
				ends += strings.IndexByte(got[ends:], '\n')
				got = got[:begins] + "SYSTEM" + got[ends:]
				if want := test.want + "\n\nTask attributes: "; !strings.HasPrefix(got, want) {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
		t.Run(name+", a chat", func(t *testing.T) {
			prompt, err := f.Render(&format.Input{Chat: chat})
			if err != nil {
				t.Fatal(err)
			}
			if want := chat.System + "\n\n" + chat.Messages[0].Text; !strings.Contains(prompt.Text, want) {
				t.Errorf("%q is missing from\n%s", want, prompt.Text)
			}
		})
	}
}

// What a template wants to alternate is joined, and stays apart where it need not alternate.
func TestTurnsOfOneSideAreJoinedForAlternatingTemplates(t *testing.T) {
	const (
		alternating = `{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns must alternate') }}{% endif %}[{{ m['role'] }}] {{ m['content'] }}
{% endfor %}`
		free = `{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}
{% endfor %}`
	)
	turns := `{"history":[{"author":"USER","content":"a"},{"author":"USER","content":"b"},{"author":"MODEL","content":"c"},{"author":"MODEL","content":"d"}]}`
	report := `{"history":[{"author":"USER","content":"a"},{"author":"MODEL","content":"{\"say\":\"b\",\"action\":{}}"},{"author":"SYSTEM","content":"the door opened"},{"author":"USER","content":"c"},{"author":"MODEL","content":"{\"say\":\"d\",\"action\":{}}"}]}`
	for _, test := range []struct{ name, template, memory, want string }{
		{"turns joined", alternating, turns, "\n\na\n\nb\n[assistant] c\n\nd\n[user] Go\n"},
		{"turns apart", free, turns, "\n[user] a\n[user] b\n[assistant] c\n[assistant] d\n[user] Go\n"},
		{"a report behind a reply joined with the next turn", alternating, report, "\n\na\n[assistant] b\n[user] Environment status:\nthe door opened\n\nc\n[assistant] d\n[user] Go\n"},
		{"a report behind a reply apart", free, report, "\n[user] a\n[assistant] b\n[user] Environment status:\nthe door opened\n[user] c\n[assistant] d\n[user] Go\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := newKit(t, synth.Qwen3, test.template)
			f := newFormat(t, format.Template, format.Options{ChatTemplate: test.template, ModelAPI: k})
			prompt, err := f.Render(newInput(t, f, test.memory, memory.User, "Go", nil, `{}`))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(prompt.Text, test.want) {
				t.Errorf("%q does not end with %q", prompt.Text, test.want)
			}
		})
	}
}
