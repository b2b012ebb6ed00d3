package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"agentd/scheduler/generation"
)

// Conversation is what a model continues in a chat.
type Conversation struct {
	System   string
	Messages []Message // begin and end with one that the model is given
	// Schema of the JSON value that is the answer; nil: any text.
	Schema []byte
}

// Message is one message of a Conversation.
type Message struct {
	Model bool // the model wrote it
	Text  string
}

// chatRequest is the body of POST /v1/chat/completions.
type chatRequest struct {
	common

	Messages            []chatMessage  `json:"messages"`
	MaxCompletionTokens *int           `json:"max_completion_tokens"`
	Stop                list           `json:"stop"`
	Tools               []tool         `json:"tools"`
	ToolChoice          toolChoice     `json:"tool_choice"`
	Parallel            *bool          `json:"parallel_tool_calls"` // there is at most one call anyway
	ResponseFormat      *responseForm  `json:"response_format"`
	Logprobs            bool           `json:"logprobs"`
	LogitBias           map[string]any `json:"logit_bias"`
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    content    `json:"content"`
	Name       string     `json:"name"`
	ToolCalls  []toolCall `json:"tool_calls"`
	ToolCallID string     `json:"tool_call_id"`
	Refusal    *string    `json:"refusal"`
}

// content is a text, or a list of texts.
type content string

func (c *content) UnmarshalJSON(raw []byte) error {
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		if text != nil {
			*c = content(*text)
		}
		return nil
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for i, part := range parts {
		if part.Type != "text" {
			return fmt.Errorf("part %d of a message's content is %q; only text is supported", i, part.Type)
		}
		*c += content(part.Text)
	}
	return nil
}

type responseForm struct {
	Type   string `json:"type"`
	Schema *struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
		Strict      *bool           `json:"strict"`
	} `json:"json_schema"`
}

type chatAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
}

type chatChoice struct {
	Index        int     `json:"index"`
	Message      *said   `json:"message,omitempty"`
	Delta        *said   `json:"delta,omitempty"`
	Logprobs     any     `json:"logprobs"`
	FinishReason *string `json:"finish_reason"`
}

// said is a message of the model, or a part of one.
type said struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

// chat is a decoded request.
type chat struct {
	model   Model
	served  Served
	request *generation.Request
	stop    list
	tools   *offer // nil: none
	stream  bool
	usage   bool // in the stream
	id      string
}

func newChat(ctx context.Context, m Model, id string, body []byte) (*chat, error) {
	var r chatRequest
	if err := decode(body, &r); err != nil {
		return nil, err
	}
	c := &chat{model: m, served: m.Served(), stop: r.Stop, id: "chatcmpl-" + id}
	if r.MaxCompletionTokens != nil {
		r.MaxTokens = r.MaxCompletionTokens
	}
	c.stream, c.usage = r.Stream, r.StreamOptions != nil && r.StreamOptions.IncludeUsage
	p, err := r.params(m, &c.served)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Logprobs:
		return nil, refuse("logprobs", "is not supported; remove it")
	case len(r.LogitBias) > 0:
		return nil, refuse("logit_bias", "is not supported here; /v1/completions has it")
	}
	if err := r.Stop.check(); err != nil {
		return nil, err
	}
	talk, err := r.conversation()
	if err != nil {
		return nil, err
	}
	if c.tools, err = newOffer(r.Tools, r.ToolChoice); err != nil {
		return nil, err
	}
	if c.tools != nil {
		if talk.Schema != nil {
			return nil, refuse("response_format", "excludes tools that may be called; remove one of the two, or set tool_choice to none")
		}
		talk.System = strings.TrimSpace(talk.System + "\n\n" + c.tools.text)
		talk.Schema = c.tools.schema
	}
	if c.request, err = m.Chat(ctx, talk); err != nil {
		return nil, err
	}
	p.Grammar, p.SuppressControl = c.request.Grammar, c.request.SuppressControl
	c.request.Params = p
	room := c.served.Window - len(c.request.Prompt)
	if room < 1 {
		return nil, refuse("messages", "have %d tokens; the model's context of %d holds fewer and an answer", len(c.request.Prompt), c.served.Window)
	}
	if r.MaxTokens == nil {
		c.request.MaxTokens = min(c.request.MaxTokens, room)
	}
	return c, nil
}

// conversation joins messages so that those of the model and others take turns.
func (r *chatRequest) conversation() (*Conversation, error) {
	talk := new(Conversation)
	add := func(model bool, text string) {
		if n := len(talk.Messages); n > 0 && talk.Messages[n-1].Model == model {
			talk.Messages[n-1].Text += "\n\n" + text
			return
		}
		talk.Messages = append(talk.Messages, Message{model, text})
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		field := fmt.Sprintf("messages.%d", i)
		switch m.Role {
		case "system", "developer":
			if len(talk.Messages) > 0 {
				return nil, refuse(field, "is a %s message behind others; put it first", m.Role)
			}
			talk.System = strings.TrimSpace(talk.System + "\n\n" + string(m.Content))
		case "user":
			add(false, string(m.Content))
		case "assistant":
			text := string(m.Content)
			for k := range m.ToolCalls {
				call, err := m.ToolCalls[k].written()
				if err != nil {
					return nil, refuse(fmt.Sprintf("%s.tool_calls.%d", field, k), "%v", err)
				}
				text = strings.TrimSpace(text + "\n" + call)
			}
			add(true, text)
		case "tool":
			add(false, "Result of the call:\n"+string(m.Content))
		default:
			return nil, refuse(field+".role", "is %q; want system, developer, user, assistant or tool", m.Role)
		}
	}
	switch n := len(talk.Messages); {
	case n == 0:
		return nil, refuse("messages", "has no message of a user")
	case talk.Messages[0].Model || talk.Messages[n-1].Model:
		return nil, refuse("messages", "must begin and end with a message to the model")
	}
	switch f := r.ResponseFormat; {
	case f == nil || f.Type == "text":
	case f.Type == "json_object":
		talk.Schema = []byte(`{"type": "object"}`)
	case f.Type == "json_schema" && f.Schema != nil && len(f.Schema.Schema) > 0:
		talk.Schema = f.Schema.Schema
	default:
		return nil, refuse("response_format", "must be text, json_object, or json_schema with a schema")
	}
	return talk, nil
}

// read makes the message of a completion. whole: it ended by itself.
func (c *chat) read(text string, whole bool) (message said, reason string) {
	answer, err := c.model.Answer(text)
	if err != nil {
		answer = "" // thoughts that did not end, or nothing
	}
	reason = "stop"
	if !whole {
		reason = "length"
	}
	if c.tools != nil && whole {
		if call, reply, ok := c.tools.read(answer, c.id); ok {
			if call != nil {
				return said{ToolCalls: []toolCall{*call}}, "tool_calls"
			}
			answer = reply
		}
	}
	if before, found := c.stop.cut(answer); found {
		answer, reason = before, "stop"
	}
	return said{Content: &answer}, reason
}

func (c *chat) answer(object string) *chatAnswer {
	return &chatAnswer{ID: c.id, Object: object, Created: c.served.Created, Model: c.served.Name, Choices: []chatChoice{}}
}

// whole makes the body of an answer.
func (c *chat) whole(result *generation.Result) ([]byte, error) {
	a := c.answer("chat.completion")
	a.Usage = usageOf(result)
	for i := range result.Completions {
		done := &result.Completions[i]
		if done.Err != nil {
			return nil, done.Err
		}
		message, reason := c.read(done.Text, done.Finish != generation.FinishLength)
		message.Role = "assistant"
		a.Choices = append(a.Choices, chatChoice{Index: i, Message: &message, FinishReason: &reason})
	}
	return json.Marshal(a)
}

// Chat answers POST /v1/chat/completions. With stream in the request, it passes the events to
// emit and returns nil; an error after the first event is one of them.
func Chat(ctx context.Context, m Model, id string, body []byte, emit func(event []byte) error) ([]byte, error) {
	c, err := newChat(ctx, m, id, body)
	if err != nil {
		return nil, err
	}
	if c.stream {
		return nil, c.streamTo(ctx, emit)
	}
	result, err := m.Generate(ctx, c.request)
	if err != nil {
		return nil, err
	}
	return c.whole(result)
}
