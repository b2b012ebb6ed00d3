package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
)

// Message is a message of a chat.
type Message struct {
	Strict
	spoken
	Role       string     `json:"role"`
	Content    content    `json:"content"`
	Name       string     `json:"name"`
	ToolCalls  []ToolCall `json:"tool_calls"`
	ToolCallID *string    `json:"tool_call_id"`
	Refusal    string     `json:"refusal"`
	Reasoning  string     `json:"reasoning"`
	Thoughts   string     `json:"reasoning_content"` // an older name of reasoning

	Annotations jsontext.Value `json:"annotations"` // ignored: places in the text of an answer
}

// content is a text; in JSON also a list of parts with texts.
type content string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *content) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case '"', 'n':
		return read(d, (*string)(c))
	case '[':
	default:
		return errors.New("must be a string or a list of parts")
	}
	var parts []struct {
		Strict
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := read(d, &parts); err != nil {
		return err
	}
	var b strings.Builder
	for i, part := range parts {
		if part.Type != "text" {
			return fmt.Errorf("part %d is %q, and only text can be read; remove the part", i, part.Type)
		}
		b.WriteString(part.Text)
	}
	*c = content(b.String())
	return nil
}

// Present reports whether a member exists and is not null.
func Present(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

// pending is in place of the result of a call without one.
const pending = `{"status": "pending"}`

// Turns has the messages of a chat. The results of calls follow their turn, in the order of the calls.
type Turns struct {
	List    []format.ChatMessage
	waiting map[string][]int // indexes in List of results for the last turn, by the id of the call; "" has all
	open    map[int]bool     // the indexes whose result has not come
}

// Add adds a message that is not the model's.
func (t *Turns) Add(m format.ChatMessage) {
	t.List, t.waiting, t.open = append(t.List, m), nil, nil
}

// Model adds a message of the model. field is its path, for errors.
func (t *Turns) Model(m *Message, field string) error {
	turn := len(t.List)
	t.Add(format.ChatMessage{Model: true, Text: cmp.Or(string(m.Content), m.Refusal), Reasoning: cmp.Or(m.Reasoning, m.Thoughts)})
	t.waiting, t.open = map[string][]int{}, map[int]bool{}
	for k := range m.ToolCalls {
		call, field, at := &m.ToolCalls[k], path(field+".tool_calls", k)+".function.", len(t.List)
		name, arguments := call.Function.Name, protocol.Raw(cmp.Or(strings.TrimSpace(call.Function.Arguments), "{}"))
		if arguments.Kind() != '{' || !arguments.IsValid() { // any text is right, and templates need an object
			arguments = protocol.Raw(`{"input":` + string(protocol.String(call.Function.Arguments)) + "}")
		}
		if name == "" {
			return Refuse(field+"name", "is missing; give the name of the function that was called")
		}
		t.List[turn].Calls = append(t.List[turn].Calls, tools.Call{Name: name, Arguments: arguments})
		t.List = append(t.List, format.ChatMessage{Of: name, Text: pending})
		if t.waiting[""] = append(t.waiting[""], at); call.ID != "" {
			t.waiting[call.ID] = append(t.waiting[call.ID], at)
		}
		t.open[at] = true
	}
	return nil
}

// Result sets the result of the call with that id. It returns false if no call waits for it.
func (t *Turns) Result(id, text string) bool {
	for len(t.waiting[id]) > 0 {
		at := t.waiting[id][0]
		if t.waiting[id] = t.waiting[id][1:]; t.open[at] {
			t.List[at].Text = text
			delete(t.open, at)
			return true
		}
	}
	return false
}

// conversation converts the messages. It stops when ctx ends.
func (r *chatRequest) conversation(ctx context.Context) (*format.Chat, error) {
	var system []string
	var t Turns
	for i := range r.Messages {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, field := &r.Messages[i], path("messages", i)
		text := string(m.Content)
		switch {
		case len(m.ToolCalls) > 0 && m.Role != "assistant":
			return nil, Refuse(field+".tool_calls", "is for the role assistant; remove it")
		case m.ToolCallID != nil && m.Role != "tool":
			return nil, Refuse(field+".tool_call_id", "is for the role tool; remove it")
		case m.ToolCallID != nil && *m.ToolCallID == "":
			return nil, Refuse(field+".tool_call_id", "is empty; give the id of the call, or remove it")
		}
		switch m.Role {
		case "system", "developer":
			if len(t.List) == 0 {
				system = append(system, text)
			} else {
				t.Add(format.ChatMessage{System: true, Text: text})
			}
		case "user":
			t.Add(format.ChatMessage{Text: text})
		case "assistant":
			if err := t.Model(m, field); err != nil {
				return nil, err
			}
		case "tool":
			id := ""
			set(&id, m.ToolCallID)
			if !t.Result(id, text) {
				return nil, Refuse(field+".tool_call_id", "%q is the id of no call before it that has no result", id)
			}
		default:
			return nil, Refuse(field+".role", "is %q; want system, developer, user, assistant or tool", m.Role)
		}
	}
	talk := &format.Chat{System: strings.TrimSpace(strings.Join(system, "\n\n")), Messages: t.List}
	if talk.System == "" && len(t.List) == 0 {
		return nil, Refuse("messages", "has no text; add a message of a user")
	}
	return talk, r.constrain(talk)
}

// constrain sets what an answer must be: a call, or a JSON value.
func (r *chatRequest) constrain(talk *format.Chat) (err error) {
	if talk.Functions, err = r.functions(); err != nil {
		return err
	}
	f, s := r.ResponseFormat, r.Structured
	switch {
	case s != nil && (f != nil || len(r.Tools) > 0):
		return Refuse("structured_outputs", "excludes response_format and tools; remove one of them")
	case s != nil && s.several():
		return Refuse("structured_outputs", "has several of json, json_object, choice and grammar; keep one")
	case s != nil && Present(s.JSON):
		talk.Schema = s.JSON
	case s != nil && s.Object:
		talk.Schema = protocol.Raw(`{"type": "object"}`)
	case s != nil && s.grammar() == "":
		return Refuse("structured_outputs", "has no json, json_object, choice or grammar, which are supported")
	case f == nil:
	case f.Type != "json_schema" && f.Schema != nil:
		return Refuse("response_format.json_schema", "needs type json_schema, not %q", f.Type)
	case f.Type == "text":
	case f.Type == "json_object":
		talk.Schema = protocol.Raw(`{"type": "object"}`)
	case f.Type != "json_schema":
		return Refuse("response_format.type", "is %q; want text, json_object or json_schema", f.Type)
	case f.Schema == nil:
		return Refuse("response_format.json_schema", "is missing; type json_schema needs it")
	case !Present(f.Schema.Schema):
		return Refuse("response_format.json_schema.schema", "is missing; give the JSON Schema of the answer")
	default:
		talk.Schema = f.Schema.Schema
	}
	return nil
}

func path(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }
