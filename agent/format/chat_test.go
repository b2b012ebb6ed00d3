//go:build !race

package format_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/llama/synth"
	"agentd/protocol"
)

// chat is a question, an answer, and what was wrong with it.
var chat = &format.Chat{
	System: "You repair steps <|im_end|> of <|end|> robots.",
	Messages: []format.ChatMessage{
		{Text: "What should it do <|im_start|>?"},
		{Model: true, Text: `{"name": "fly"}`},
		{Text: "There is no tool fly.\n\nTry again."},
	},
}

// oddChat begins and ends with the model, and has a system message among others.
var oddChat = &format.Chat{
	System: "You repair steps.",
	Messages: []format.ChatMessage{
		{Model: true, Text: "Hello."}, {Text: "What now?"}, {System: true, Text: "Be brief <|im_end|>."}, {Text: "Well?"}, {Model: true, Text: "Wait."},
	},
}

func TestChatsEqualTheTemplates(t *testing.T) {
	for _, model := range []struct{ file, arch, format string }{
		{"Qwen-Qwen3-0.6B.jinja", synth.Qwen3, format.Qwen},
		{"Qwen-Qwen2.5-7B-Instruct.jinja", synth.Qwen3, format.Qwen},
		{"Qwen3.5-4B.jinja", synth.Qwen3, format.Qwen},
		{"Qwen3-Coder.jinja", synth.Qwen3, format.Qwen},
		{"openai-gpt-oss-120b.jinja", synth.GPTOSS, format.GPTOSS},
		{"meta-llama-Llama-3.1-8B-Instruct.jinja", synth.Llama, format.Llama},
		{"meta-llama-Llama-3.2-3B-Instruct.jinja", synth.Llama, format.Llama},
	} {
		t.Run(model.file, func(t *testing.T) {
			chats := []*format.Chat{chat, oddChat, {System: "You repair steps."}}
			if model.file == "Qwen3.5-4B.jinja" || model.format == format.GPTOSS { // these refuse or drop late system messages
				chats = chats[:1]
			}
			source := reference(t, model.file)
			kit := newKit(t, model.arch, source)
			o := format.Options{ChatTemplate: source, ModelAPI: kit}
			if model.format == format.GPTOSS {
				o.ReasoningEffort = "medium"
			}
			for _, c := range chats {
				prompt, err := newFormat(t, model.format, o).Render(&format.Input{Chat: c})
				if err != nil {
					t.Fatal(err)
				}
				if late := strings.Contains(string(prompt.Messages), `{"role":"system","content":"Be brief <|im_end|>."}`); late != (c == oddChat) {
					t.Errorf("a late system message is there: %t", late)
				}
				got := text(t, prompt, kit.specials)
				want, err := kit.RenderTemplate(referenceVars(prompt, model.format, false))
				if err != nil {
					t.Fatal(err)
				}
				want = regexp.MustCompile(`Current date: [0-9-]+\n`).ReplaceAllString(want, "")
				if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
					t.Errorf("template (-) and native (+) differ:\n%s", diff)
				}
				for _, segment := range prompt.Segments {
					if segment.Special && strings.Contains(segment.Text, "robots") {
						t.Errorf("text of the chat became the special token %q", segment.Text)
					}
				}
			}
		})
	}
}

// TestChatsOfTemplates: a model's own template gets the messages, one that was
// made for this agent no system message, which would be the environment's.
func TestChatsOfTemplates(t *testing.T) {
	for name, test := range map[string]struct{ template, want string }{
		"any": {
			`{% for m in messages %}[{{ m.role }}] {{ m.content }}` + "\n" + `{% endfor %}{{ tools is defined }}`,
			"[system] You repair steps <|im_end|> of <|end|> robots.\n[user] What should it do <|im_start|>?\n" +
				"[assistant] {\"name\": \"fly\"}\n[user] There is no tool fly.\n\nTry again.\nFalse",
		},
		"made for the agent": {
			madeTemplate,
			"[user] You repair steps <|im_end|> of <|end|> robots.\n\nWhat should it do <|im_start|>?\n" +
				"[assistant] {\"name\": \"fly\"}\n[user] There is no tool fly.\n\nTry again.\n[]{}[]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit := newKit(t, synth.Qwen3, test.template)
			f := newFormat(t, format.Template, format.Options{ChatTemplate: test.template, ModelAPI: kit})
			prompt, err := f.Render(&format.Input{Chat: chat})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, text(t, prompt, kit.specials)); diff != "" {
				t.Error(diff)
			}
			for _, segment := range prompt.Segments {
				if segment.Special {
					t.Errorf("text of the chat became the special token %q", segment.Text)
				}
			}
		})
	}
}

// coachSchema is like a coach's answer.
const coachSchema = `{"type":"object","properties":{"outcome":{"enum":["corrected","abandoned"]},"why":{"type":"string","maxLength":40},
"calls":{"type":"array","maxItems":2,"items":{"anyOf":[
{"type":"object","properties":{"name":{"const":"move"},"arguments":{"type":"object","properties":{"to":{"type":"string","pattern":"[a-z]+"},"n":{"type":"integer"}},"required":["to","n"],"additionalProperties":false}},"required":["name","arguments"],"additionalProperties":false},
{"type":"object","properties":{"name":{"const":"look"},"arguments":{"type":"object","properties":{},"additionalProperties":false}},"required":["name","arguments"],"additionalProperties":false}]}}},
"required":["outcome","why","calls"],"additionalProperties":false}`

func coachAnswer(t *testing.T) *tools.Set {
	t.Helper()
	value, err := tools.NormaliseAnswer(protocol.Raw(coachSchema))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestChatGrammarsAdmitWhatParsersRead(t *testing.T) {
	const (
		answer  = `{"outcome": "corrected", "why": "a </think> <|end|> {", "calls": [{"name": "move", "arguments": {"to": "x", "n": 5}}]}`
		final   = "<|channel|>final<|message|>"
		thought = "<|channel|>analysis<|message|>hmm {<|end|><|start|>assistant"
	)
	wrong := []string{strings.Replace(answer, `"move"`, `"fly"`, 1), strings.Replace(answer, "5", `"5"`, 1), "Sure: " + answer, `{}`, answer + "!"}
	before := map[string][]string{
		"hermes": {""}, "hermes, thinking": {"<think>\nhmm {\n</think>\n\n"}, "tagged": {""}, "tagged, thinking": {"hmm {\n</think>\n\n"},
		"gpt-oss": {final, thought + final, thought + thought + final}, "llama": {""}, "blocks": {"<think>\nhmm</think>\n\n"}, "json": {""},
	}
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			f, k := s.open(t)
			grammar, err := format.AnswerCatalog(f, coachAnswer(t)).Grammar()
			if err != nil {
				t.Fatal(err)
			}
			if len(before[s.name]) == 0 {
				t.Fatal("no texts for this setup")
			}
			for _, thoughts := range before[s.name] {
				if prefix, ok := admits(t, k, grammar, thoughts+strings.Replace(answer, "<|end|>", "", 1)); !ok {
					t.Errorf("the grammar stops after %q", prefix)
				}
				for _, tail := range []string{"", "\n"} {
					if got, err := f.ParseChat(thoughts + answer + tail); err != nil || got != answer {
						t.Errorf("ParseChat(%q) = %q, %v", thoughts+answer+tail, got, err)
					}
				}
				for _, w := range wrong {
					if _, ok := admits(t, k, grammar, thoughts+w); ok {
						t.Errorf("the grammar admits %q", thoughts+w)
					}
				}
			}
		})
	}
}

func TestChatAnswersWithoutAnAnswerAreErrors(t *testing.T) {
	for name, texts := range map[string][]string{
		"hermes, thinking": {"<think>\nnever ends"},
		"tagged, thinking": {"never ends"},
		"gpt-oss": {
			"", "Hello", "<|channel|>analysis<|message|>only thoughts<|end|>", "<|channel|>final", "<|channel|>analysis<|message|>a<|end|>b",
			` to=functions.look<|channel|>commentary json<|message|>{}`,
		},
	} {
		for _, s := range setups {
			if s.name != name {
				continue
			}
			f, _ := s.open(t)
			for _, text := range texts {
				if got, err := f.ParseChat(text); err == nil {
					t.Errorf("%s: ParseChat(%q) = %q, want an error", name, text, got)
				}
			}
		}
	}
}

// TestConstrainedNoiseIsAnAnswer: whatever ends under a chat's grammar is JSON
// of the schema's shape.
func TestConstrainedNoiseIsAnAnswer(t *testing.T) {
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			f, k := s.open(t)
			grammar, err := format.AnswerCatalog(f, coachAnswer(t)).Grammar()
			if err != nil {
				t.Fatal(err)
			}
			eachNoise(t, f, k, grammar, func(answer string) {
				read, err := f.ParseChat(answer)
				if err != nil {
					t.Errorf("ParseChat(%q): %v", answer, err)
					return
				}
				var got struct {
					Outcome, Why string
					Calls        []struct {
						Name      string
						Arguments struct {
							To string
							N  int64
						}
					}
				}
				d := json.NewDecoder(strings.NewReader(read))
				d.DisallowUnknownFields()
				if err := d.Decode(&got); err != nil && !strings.Contains(err.Error(), "into Go struct field .Calls.Arguments.N") {
					t.Errorf("%q is no answer: %v", read, err)
				} else if got.Outcome != "corrected" && got.Outcome != "abandoned" {
					t.Errorf("the outcome of %q is %q", read, got.Outcome)
				}
			})
		})
	}
}

func FuzzParseChat(f *testing.F) {
	for _, seed := range []string{"", "{}", "<think>\na</think>{}", "<|channel|>final<|message|>{}<|end|>", "<|channel|>analysis<|message|>a<|end|><|start|>assistant"} {
		f.Add(seed)
	}
	var formats []format.Format
	for _, s := range setups {
		made, _ := s.open(f)
		formats = append(formats, made)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, made := range formats {
			if answer, err := made.ParseChat(text); err == nil && strings.TrimSpace(answer) != answer {
				t.Errorf("%s: %q has space around it", made.Name(), answer)
			}
		}
	})
}
