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

type chatMessage struct {
	strict
	Role       string     `json:"role"`
	Content    content    `json:"content"`
	Name       string     `json:"name"`
	ToolCalls  []toolCall `json:"tool_calls"`
	ToolCallID *string    `json:"tool_call_id"`
	Refusal    string     `json:"refusal"`
}

// content is a text, or a list of texts.
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
		strict
		Type     string   `json:"type"`
		Text     string   `json:"text"`
		ImageURL anyValue `json:"image_url"`
	}
	if err := read(d, &parts); err != nil {
		return err
	}
	var b strings.Builder
	for i, part := range parts {
		switch {
		case part.Type == "image_url" || bool(part.ImageURL):
			return fmt.Errorf("part %d is an image, and images can't be read; remove the part", i)
		case part.Type != "text":
			return fmt.Errorf("part %d is %q; only text is supported", i, part.Type)
		}
		b.WriteString(part.Text)
	}
	*c = content(b.String())
	return nil
}

// anyValue reports whether a member is there and not null.
type anyValue bool

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (v *anyValue) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*v = d.PeekKind() != 'n'
	return d.SkipValue()
}

// pending stands for the result of a call that has none.
const pending = `{"status": "pending"}`

// turns are the messages of a chat. Each call has its result.
type turns struct {
	list    []format.ChatMessage
	ids     []string         // of the calls of the last turn
	results []*string        // of these calls; nil: none yet
	waiting map[string][]int // indexes of these calls by id, and all by ""
}

// add adds a turn after the results of calls.
func (t *turns) add(m format.ChatMessage) {
	t.settle()
	t.list = append(t.list, m)
}

// settle adds the results of the calls of the last turn.
func (t *turns) settle() {
	if len(t.ids) == 0 {
		return
	}
	for i, call := range t.list[len(t.list)-1].Calls {
		text := pending
		if t.results[i] != nil {
			text = *t.results[i]
		}
		t.list = append(t.list, format.ChatMessage{Of: call.Name, Text: text})
	}
	t.ids, t.results, t.waiting = nil, nil, map[string][]int{}
}

// call adds a call to the last turn. field is the beginning of the names of its fields.
func (t *turns) call(c *toolCall, field string) error {
	arguments := protocol.Raw(cmp.Or(strings.TrimSpace(c.Function.Arguments), "{}"))
	if arguments.Kind() != '{' || !arguments.IsValid() {
		return refuse(field+"arguments", "must be the text of a JSON object")
	}
	if c.Function.Name == "" {
		return refuse(field+"name", "is missing; give the name of the function that was called")
	}
	last := &t.list[len(t.list)-1]
	last.Calls = append(last.Calls, tools.Call{Name: c.Function.Name, Arguments: arguments})
	n := len(t.results)
	t.ids, t.results = append(t.ids, c.ID), append(t.results, nil)
	if t.waiting[""] = append(t.waiting[""], n); c.ID != "" {
		t.waiting[c.ID] = append(t.waiting[c.ID], n)
	}
	return nil
}

// result adds the result of the call of that id. It reports whether there is one without a result.
func (t *turns) result(id, text string) bool {
	for list := t.waiting[id]; len(list) > 0; list = t.waiting[id] {
		i := list[0]
		if t.waiting[id] = list[1:]; t.results[i] == nil {
			t.results[i] = &text
			return true
		}
	}
	return false
}

// conversation makes turns of the messages. It ends with ctx.
func (r *chatRequest) conversation(ctx context.Context) (*format.Chat, error) {
	var system []string
	t := turns{waiting: map[string][]int{}}
	for i := range r.Messages {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, field := &r.Messages[i], path("messages", i)
		text := string(m.Content)
		switch {
		case len(m.ToolCalls) > 0 && m.Role != "assistant":
			return nil, refuse(field+".tool_calls", "is for the role assistant; remove it")
		case m.ToolCallID != nil && m.Role != "tool":
			return nil, refuse(field+".tool_call_id", "is for the role tool; remove it")
		case m.ToolCallID != nil && *m.ToolCallID == "":
			return nil, refuse(field+".tool_call_id", "is empty; give the id of the call, or remove it")
		}
		switch m.Role {
		case "system", "developer":
			if len(t.list) > 0 {
				return nil, refuse(field, "is a %s message behind others; put it first", m.Role)
			}
			system = append(system, text)
		case "user":
			t.add(format.ChatMessage{Text: text})
		case "assistant":
			t.add(format.ChatMessage{Model: true, Text: cmp.Or(text, m.Refusal)})
			for k := range m.ToolCalls {
				if err := t.call(&m.ToolCalls[k], path(field+".tool_calls", k)+".function."); err != nil {
					return nil, err
				}
			}
		case "tool":
			id := ""
			set(&id, m.ToolCallID)
			if !t.result(id, text) {
				return nil, refuse(field+".tool_call_id", "%q is the id of no call before it that has no result", id)
			}
		default:
			return nil, refuse(field+".role", "is %q; want system, developer, user, assistant or tool", m.Role)
		}
	}
	switch n := len(r.Messages); {
	case len(t.list) == 0:
		return nil, refuse("messages", "has no message of a user")
	case t.list[0].Model || r.Messages[n-1].Role == "assistant":
		return nil, refuse("messages", "must begin and end with a message to the model")
	}
	t.settle()
	talk := &format.Chat{System: strings.TrimSpace(strings.Join(system, "\n\n")), Messages: t.list}
	return talk, r.constrain(talk)
}

// constrain adds what answers must be: calls, or a JSON value.
func (r *chatRequest) constrain(talk *format.Chat) (err error) {
	if talk.Functions, err = r.functions(); err != nil {
		return err
	}
	switch f := r.ResponseFormat; {
	case f == nil:
	case f.Type != "json_schema" && f.Schema != nil:
		return refuse("response_format.json_schema", "needs type json_schema, not %q", f.Type)
	case f.Type == "text":
	case f.Type == "json_object":
		talk.Schema = protocol.Raw(`{"type": "object"}`)
	case f.Type != "json_schema":
		return refuse("response_format.type", "is %q; want text, json_object or json_schema", f.Type)
	case f.Schema == nil:
		return refuse("response_format.json_schema", "is missing; type json_schema needs it")
	case len(f.Schema.Schema) == 0 || f.Schema.Schema.Kind() == 'n':
		return refuse("response_format.json_schema.schema", "is missing; give the JSON Schema of the answer")
	default:
		talk.Schema = f.Schema.Schema
	}
	if talk.Schema != nil && len(talk.Functions.Raw) > 0 {
		return refuse("response_format", "excludes tools that may be called; remove one of the two, or set tool_choice to none")
	}
	return nil
}

// path is the place of an element of a list.
func path(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }
