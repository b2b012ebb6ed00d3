package llama

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/llama/synth"
)

const chatRequest = `{
	"messages": [{"role": "user", "content": "Go"}],
	"tools": [{"type": "function", "function": {"name": "goto", "description": "Go to a room",
		"parameters": {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}}}]
}`

func newChatParser(t testing.TB, m *Model, source, request string) *ChatParser {
	t.Helper()
	c, err := m.NewChatParser(source, []byte(request))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestChatParserReadsAnswers(t *testing.T) {
	for _, tc := range []struct {
		rule, arch, text string
		want             ChatMessage
	}{
		{"hermes: text", synth.Qwen3, "Hello there.", ChatMessage{Content: "Hello there.", ToolCalls: []ChatToolCall{}}},
		{"hermes: a call", synth.Qwen3, "<tool_call>\n{\"name\": \"goto\", \"arguments\": {\"room\": \"hall\"}}\n</tool_call>",
			ChatMessage{ToolCalls: []ChatToolCall{{Name: "goto", Arguments: `{"room": "hall"}`}}}},
		{"harmony: thought and answer", synth.GPTOSS, "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.",
			ChatMessage{Content: "Hello.", Reasoning: "Hm.", ToolCalls: []ChatToolCall{}}},
		{"harmony: a call", synth.GPTOSS, "<|channel|>commentary to=functions.goto <|constrain|>json<|message|>{\"room\": \"hall\"}",
			ChatMessage{ToolCalls: []ChatToolCall{{Name: "goto", Arguments: `{"room": "hall"}`}}}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got, err := newChatParser(t, shared(t, tc.arch), "", chatRequest).Parse(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestChatParserErrors(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	for rule, request := range map[string]string{
		"no JSON": `{`, "no messages": `{}`, "messages that are no list": `{"messages": 5}`, "tools without a name": `{"messages": [], "tools": [{}]}`,
	} {
		if c, err := m.NewChatParser("", []byte(request)); !errors.Is(err, ErrChat) {
			t.Errorf("%s: %v", rule, err)
			if c != nil {
				c.Close()
			}
		}
	}
	if _, err := m.NewChatParser("{% if %}", []byte(chatRequest)); !errors.Is(err, ErrChat) {
		t.Errorf("a bad template: %v", err)
	}
	unknown := "<tool_call>\n{\"name\": \"fly\", \"arguments\": {}}\n</tool_call>"
	if msg, err := newChatParser(t, shared(t, synth.Qwen3), "", chatRequest).Parse(unknown); !errors.Is(err, ErrChat) {
		t.Errorf("a call of an unknown tool: %+v, %v", msg, err)
	}
}

func TestChatParserRendersThePrompt(t *testing.T) {
	c := newChatParser(t, shared(t, synth.Qwen3), "", chatRequest)
	prompt, err := c.Prompt()
	if err != nil {
		t.Fatal(err)
	}
	want, err := newTemplate(t, shared(t, synth.Qwen3), "").Render([]byte(chatRequest[:len(chatRequest)-1] + `, "add_generation_prompt": true, "enable_thinking": false}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, prompt); diff != "" {
		t.Error(diff)
	}
}
