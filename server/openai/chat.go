package openai

import (
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/format"
	"agentd/scheduler/generation"
)

// chatRequest is the body of POST /v1/chat/completions.
type chatRequest struct {
	common

	Messages            []chatMessage  `json:"messages"`
	MaxCompletionTokens *int           `json:"max_completion_tokens"`
	Stop                list           `json:"stop"`
	Tools               []tool         `json:"tools"`
	ToolChoice          toolChoice     `json:"tool_choice"`
	Parallel            bool           `json:"parallel_tool_calls"`
	ResponseFormat      *responseForm  `json:"response_format"`
	Logprobs            bool           `json:"logprobs"`
	LogitBias           map[string]any `json:"logit_bias"`
}

type responseForm struct {
	strict
	Type   string `json:"type"`
	Schema *struct {
		strict
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Schema      jsontext.Value `json:"schema"`
		Strict      *bool          `json:"strict"`
	} `json:"json_schema"`
}

type chatAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitzero"`
}

type chatChoice struct {
	Index        int     `json:"index"`
	Message      *said   `json:"message,omitzero"`
	Delta        *delta  `json:"delta,omitzero"`
	Logprobs     any     `json:"logprobs"`
	FinishReason *string `json:"finish_reason"`
}

// said is a message of the model, delta a part of one.
type said struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"` // null: a call, or one that was cut off
	ToolCalls []toolCall `json:"tool_calls,omitzero"`
}

type delta struct {
	Role      string     `json:"role,omitzero"`
	Content   *string    `json:"content,omitzero"`
	ToolCalls []toolCall `json:"tool_calls,omitzero"`
}

// chat is a decoded request.
type chat struct {
	model   Model
	served  Served
	request *generation.Request
	answers Reader
	stop    list
	usage   bool // in the stream
	id      string
}

// newChat prepares a request. stream is the request's.
func newChat(ctx context.Context, m Model, id string, body []byte) (c *chat, stream bool, err error) {
	var r chatRequest
	if err := decode(body, &r); err != nil {
		return nil, false, err
	}
	c = &chat{model: m, served: m.Served(), stop: r.Stop, id: "chatcmpl-" + id, usage: r.StreamOptions != nil && r.StreamOptions.IncludeUsage}
	if n := r.MaxCompletionTokens; n != nil {
		if *n < 1 {
			return nil, false, refuse("max_completion_tokens", "is %d, must be at least 1", *n)
		}
		r.MaxTokens = n
	}
	p, err := r.params(m, &c.served)
	if err != nil {
		return nil, false, err
	}
	switch {
	case r.Logprobs:
		return nil, false, refuse("logprobs", "is not supported; remove it")
	case len(r.LogitBias) > 0:
		return nil, false, refuse("logit_bias", "is not supported here; /v1/completions has it")
	}
	if err := r.Stop.check(); err != nil {
		return nil, false, err
	}
	talk, err := r.conversation(ctx)
	if err != nil {
		return nil, false, err
	}
	if c.request, c.answers, err = m.Chat(ctx, talk); err != nil {
		return nil, false, c.refused(err, talk)
	}
	p.Grammar, p.SuppressControl = c.request.Grammar, c.request.SuppressControl
	c.request.Params = p
	room := c.served.Window - len(c.request.Prompt)
	if room < 1 {
		return nil, false, c.refused(&generation.OverflowError{Prompt: len(c.request.Prompt)}, talk)
	}
	if r.MaxTokens == nil {
		c.request.MaxTokens = min(c.request.MaxTokens, room)
	}
	return c, r.Stream, nil
}

// refused makes an error of Model.Chat name the field.
func (c *chat) refused(err error, talk *format.Chat) error {
	var overflow *generation.OverflowError
	var unusable *format.UnusableError
	switch {
	case errors.As(err, &overflow):
		return refuse("messages", "have %s tokens; the model's context of %d holds fewer and an answer", overflow.Count(), c.served.Window)
	case !errors.As(err, &unusable):
		return err
	case len(talk.Functions.Raw) == 0:
		return refuse("response_format.json_schema.schema", "%v", err)
	}
	if at, reason, ok := strings.Cut(err.Error(), ": "); ok && strings.HasPrefix(at, "tools[") {
		return refuse(at+".function", "%s", reason)
	}
	return refuse("tools", "%v", err)
}

// read makes the message of a completion.
func (c *chat) read(i int, done *generation.Completion) (message *said, reason string, err error) {
	message = &said{Role: "assistant"}
	if done.Err != nil {
		return nil, "", done.Err
	}
	if done.Finish == generation.FinishLength {
		if text := c.answers.SoFar(done.Text); text != "" {
			message.Content = &text
		}
		reason = "length"
	} else {
		text, calls, err := c.answers.Read(done.Text)
		if err != nil {
			return nil, "", &Error{Param: path("choices", i), Message: err.Error() + "; send the request again, or change its messages", Answer: true}
		}
		if len(calls) > 0 {
			message.ToolCalls = newCalls(calls)
			return message, "tool_calls", nil
		}
		message.Content, reason = &text, "stop"
	}
	if message.Content != nil {
		if before, found := c.stop.cut(*message.Content); found {
			message.Content, reason = &before, "stop"
		}
	}
	return message, reason, nil
}

func (c *chat) answer(object string) *chatAnswer {
	return &chatAnswer{ID: c.id, Object: object, Created: c.served.Created, Model: c.served.Name, Choices: []chatChoice{}}
}

// whole makes the body of an answer.
func (c *chat) whole(result *generation.Result) ([]byte, error) {
	a := c.answer("chat.completion")
	a.Usage = usageOf(result)
	for i := range result.Completions {
		message, reason, err := c.read(i, &result.Completions[i])
		if err != nil {
			return nil, err
		}
		a.Choices = append(a.Choices, chatChoice{Index: i, Message: message, FinishReason: &reason})
	}
	return marshal(a)
}

// Chat answers POST /v1/chat/completions. With stream in the request it sends the answer to s and
// returns nil.
func Chat(ctx context.Context, m Model, id string, body []byte, s Stream) ([]byte, error) {
	c, stream, err := newChat(ctx, m, id, body)
	if err != nil {
		return nil, err
	}
	if stream {
		return nil, c.streamTo(ctx, s)
	}
	result, err := m.Generate(ctx, c.request, nil)
	if err != nil {
		return nil, err
	}
	return c.whole(result)
}
