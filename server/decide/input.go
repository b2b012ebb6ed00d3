package decide

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
	"agentd/server/openai"
)

// item is an element of the input.
type item struct {
	openai.Strict
	Type      string         `json:"type"`
	Role      string         `json:"role"`
	Content   jsontext.Value `json:"content"`
	Name      string         `json:"name"`
	Arguments string         `json:"arguments"`
	Input     string         `json:"input"`
	CallID    string         `json:"call_id"`
	Output    jsontext.Value `json:"output"`

	// These change nothing here.
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	Status    string `json:"status"`
	Phase     string `json:"phase"`
}

type part struct {
	openai.Strict
	Type     string         `json:"type"`
	Text     string         `json:"text"`
	Refusal  string         `json:"refusal"`
	Data     jsontext.Value `json:"data"`
	ImageURL string         `json:"image_url"`
	Detail   string         `json:"detail"`

	Breakpoint jsontext.Value `json:"prompt_cache_breakpoint"` // changes nothing here
}

const maxJSON = 256 << 10 // bytes of a JSON part, OpenAI's limit

// chat returns the input as a conversation, which is the state.
func (r *decisionsRequest) chat(ctx context.Context) (*format.Chat, error) {
	chat := &format.Chat{Functions: tools.Functions{OneCall: true}}
	for i := range r.Tools {
		f := &r.Tools[i]
		if f.Type != "function" {
			return nil, openai.Refuse(fmt.Sprintf("tools[%d].type", i), "is %q; only function is supported", f.Type)
		}
		raw, err := openai.Marshal(struct {
			Name        string         `json:"name"`
			Description string         `json:"description,omitzero"`
			Parameters  jsontext.Value `json:"parameters,omitzero"`
		}{f.Name, f.Description, f.Parameters})
		if err != nil {
			return nil, err
		}
		chat.Functions.Raw = append(chat.Functions.Raw, raw)
	}
	if text, ok := protocol.Text(r.Input); ok {
		if strings.TrimSpace(text) == "" {
			return nil, openai.Refuse("input", "is empty; give the text that the questions are about")
		}
		chat.Messages = []format.ChatMessage{{Text: text}}
		return chat, nil
	}
	if r.Input.Kind() != '[' {
		return nil, openai.Refuse("input", "must be a text, or a list of messages, calls and outputs")
	}
	t := turns{system: &chat.System}
	for e := range protocol.Elements(r.Input) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := t.add(e); err != nil {
			return nil, err
		}
	}
	if err := t.flush(); err != nil {
		return nil, err
	}
	if len(t.List) == 0 {
		return nil, openai.Refuse("input", "has no message to the model")
	}
	chat.Messages = t.List
	return chat, nil
}

// turns collects the items of an input.
type turns struct {
	openai.Turns
	system *string
	calls  []openai.ToolCall // of the model's turn so far
	n      int
}

// flush adds the model's turn with the calls so far.
func (t *turns) flush() error {
	if len(t.calls) == 0 {
		return nil
	}
	m := openai.Message{Role: "assistant", ToolCalls: t.calls}
	t.calls = nil
	return t.Model(&m, fmt.Sprintf("input[%d]", t.n-1))
}

func (t *turns) add(raw protocol.Raw) error {
	field := fmt.Sprintf("input[%d]", t.n)
	var it item
	if err := at(field, openai.Decode(raw, &it)); err != nil {
		return err
	}
	called := it.Type == "function_call" || it.Type == "custom_tool_call"
	if !called {
		if err := t.flush(); err != nil {
			return err
		}
	}
	t.n++
	if called {
		arguments := it.Arguments
		if it.Type == "custom_tool_call" {
			arguments = `{"input":` + string(protocol.String(it.Input)) + "}"
		}
		if it.Name == "" || it.CallID == "" {
			return openai.Refuse(field, "needs a name and a call_id")
		}
		t.calls = append(t.calls, openai.ToolCall{ID: it.CallID, Function: openai.Called{Name: it.Name, Arguments: arguments}})
		return nil
	}
	content, name := it.Content, "content"
	if it.Type == "function_call_output" || it.Type == "custom_tool_call_output" {
		content, name = it.Output, "output"
	}
	text, err := textOf(content, field+"."+name)
	switch {
	case err != nil:
		return err
	case name == "output":
		if !t.Result(it.CallID, text) {
			return openai.Refuse(field+".call_id", "%q is the id of no call before it that has no output", it.CallID)
		}
	case it.Type != "" && it.Type != "message":
		return openai.Refuse(field+".type", "is %q; want message, function_call, function_call_output, custom_tool_call or custom_tool_call_output", it.Type)
	case it.Role == "user":
		t.Add(format.ChatMessage{Text: text})
	case it.Role == "assistant":
		t.Add(format.ChatMessage{Model: true, Text: text})
	case it.Role != "system" && it.Role != "developer":
		return openai.Refuse(field+".role", "is %q; want system, developer, user or assistant", it.Role)
	case len(t.List) > 0:
		t.Add(format.ChatMessage{System: true, Text: text})
	default:
		*t.system = strings.TrimSpace(*t.system + "\n\n" + text)
	}
	return nil
}

// at returns an error whose field is within field.
func at(field string, err error) error {
	refused, ok := errors.AsType[*openai.Error](err)
	switch {
	case !ok:
		return err
	case refused.Param != "body":
		field += "." + refused.Param
	}
	return openai.Refuse(field, "%s", refused.Message)
}

// textOf reads a text, or a list of parts with texts.
func textOf(v jsontext.Value, field string) (string, error) {
	if text, ok := protocol.Text(v); ok {
		return text, nil
	}
	if v.Kind() != '[' {
		return "", openai.Refuse(field, "must be a text or a list of parts")
	}
	var texts []string
	for e := range protocol.Elements(v) {
		field := fmt.Sprintf("%s[%d]", field, len(texts))
		var p part
		if err := at(field, openai.Decode(e, &p)); err != nil {
			return "", err
		}
		switch p.Type {
		case "input_text", "output_text":
			texts = append(texts, p.Text)
		case "refusal":
			texts = append(texts, p.Refusal)
		case "input_json":
			if !isJSON(p.Data) || len(p.Data) > maxJSON {
				return "", openai.Refuse(field+".data", "must be an object or a list of objects, of at most %d bytes", maxJSON)
			}
			texts = append(texts, string(p.Data))
		case "input_image":
			return "", openai.Refuse(field, "is an image, and images can't be read; remove the part")
		default:
			return "", openai.Refuse(field+".type", "is %q; want input_text or input_json", p.Type)
		}
	}
	return strings.Join(texts, "\n"), nil
}

// isJSON reports whether v is an object or a list of objects.
func isJSON(v protocol.Raw) bool {
	for e := range protocol.Elements(v) {
		if e.Kind() != '{' {
			return false
		}
	}
	return v.Kind() == '{' || v.Kind() == '['
}
