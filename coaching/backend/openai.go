package backend

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"

	"agentd/protocol"
)

// Finish reasons of unusable answers.
const (
	finishLength = "length"
	finishFilter = "content_filter"
)

// newLimitParam is the newer name of max_tokens.
const newLimitParam = "max_completion_tokens"

// toolDescription describes the tool of ModeTool to the model.
const toolDescription = "Give your answer by calling this."

// chat asks a chat completions endpoint: https://platform.openai.com/docs/api-reference/chat/create.
type chat struct {
	*remote

	// newLimit is set once the endpoint has rejected max_tokens. OpenAI's newer models want max_completion_tokens;
	// all other servers know max_tokens.
	newLimit atomic.Bool
}

func chatCompletions(r *remote) tryFunc { return (&chat{remote: r}).try }

// message is a message in the requests of all three APIs. Content is a text or a list of blocks.
type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

type chatParams struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	MaxTokens           int             `json:"max_tokens,omitzero"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitzero"`
	ResponseFormat      *chatFormat     `json:"response_format,omitempty"`
	Tools               []chatTool      `json:"tools,omitempty"`
	ToolChoice          *chatToolChoice `json:"tool_choice,omitempty"`
}

type chatFormat struct {
	Type       string     `json:"type"`
	JSONSchema chatSchema `json:"json_schema"`
}

type chatSchema struct {
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type chatToolChoice struct {
	Type     string     `json:"type"`
	Function chatNaming `json:"function"`
}

type chatNaming struct {
	Name string `json:"name"`
}

type chatResponse struct {
	Model   string `json:"model"`
	Choices []struct {
		Message      *chatMessage `json:"message"`
		FinishReason string       `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	} `json:"usage"`
}

// chatMessage is a model's message. Content is a text or a list of parts, of which the texts count.
type chatMessage struct {
	Content          protocol.Raw `json:"content"`
	Refusal          string       `json:"refusal"`
	ReasoningContent protocol.Raw `json:"reasoning_content"`
	Reasoning        protocol.Raw `json:"reasoning"`
	ToolCalls        []struct {
		Function struct {
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (c *chat) try(ctx context.Context, q Question, mode string) (Answer, error) {
	var res chatResponse
	err := c.post(ctx, c.request(q, mode), &res)
	if !c.newLimit.Load() && refusesLimit(err) {
		c.newLimit.Store(true)
		res = chatResponse{}
		err = c.post(ctx, c.request(q, mode), &res)
	}
	if err != nil {
		return Answer{}, err
	}
	return c.read(&res, mode)
}

// refusesLimit reports whether an endpoint wants the token limit under its new name.
func refusesLimit(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == KindRefused && strings.Contains(e.Detail, newLimitParam)
}

func (c *chat) request(q Question, mode string) chatParams {
	req := chatParams{Model: c.model, Messages: messages(q, mode)}
	if c.newLimit.Load() {
		req.MaxCompletionTokens = maxTokens(q)
	} else {
		req.MaxTokens = maxTokens(q)
	}
	switch mode {
	case ModeSchema:
		req.ResponseFormat = &chatFormat{"json_schema", chatSchema{q.SchemaName, true, json.RawMessage(q.Schema)}}
	case ModeTool:
		req.Tools = []chatTool{{"function", chatFunction{q.SchemaName, toolDescription, json.RawMessage(q.Schema)}}}
		req.ToolChoice = &chatToolChoice{"function", chatNaming{q.SchemaName}}
	}
	return req
}

// messages are a question's messages, with the system's text as the first one.
func messages(q Question, mode string) (list []message) {
	if text := system(q, mode); text != "" {
		list = append(list, message{"system", text})
	}
	for _, m := range q.Messages {
		list = append(list, message{m.Role, m.Text})
	}
	return list
}

func (c *chat) read(res *chatResponse, mode string) (Answer, error) {
	if len(res.Choices) == 0 {
		return Answer{}, c.fail(KindGarbled, "it has no choices")
	}
	said, finish := res.Choices[0].Message, res.Choices[0].FinishReason
	switch {
	case said == nil:
		return Answer{}, c.fail(KindGarbled, "its choice has no message")
	case said.Refusal != "":
		return Answer{}, c.fail(KindDeclined, said.Refusal)
	case finish == finishFilter:
		return Answer{}, c.fail(KindDeclined, "a content filter stopped the answer")
	case finish == finishLength:
		return Answer{}, c.fail(KindTruncated, "")
	}
	a := Answer{
		Text: said.text(), Model: res.Model, Mode: ModeText,
		PromptTokens: res.Usage.PromptTokens, CompletionTokens: res.Usage.CompletionTokens,
	}
	switch calls := said.ToolCalls; {
	case mode == ModeTool && len(calls) > 0 && calls[0].Function.Arguments != "":
		a.Text, a.Mode = calls[0].Function.Arguments, ModeTool
	case mode == ModeSchema:
		a.Mode = schemaMode(a.Text)
	}
	return a, nil
}

// text is the text of a message. A message with separate thoughts and no content ends within its thoughts.
func (m *chatMessage) text() string {
	text, _ := protocol.Text(m.Content)
	if m.Content.Kind() == '[' {
		for part := range protocol.Elements(m.Content) {
			if typ, _ := protocol.Get(part, "type"); string(typ) == `"text"` {
				said, _ := protocol.Get(part, "text")
				s, _ := protocol.Text(said)
				text += s
			}
		}
	}
	if strings.TrimSpace(text) != "" {
		return text
	}
	for _, thoughts := range []protocol.Raw{m.ReasoningContent, m.Reasoning} {
		if s, _ := protocol.Text(thoughts); s != "" {
			return "<think>\n" + strings.ReplaceAll(s, "</think>", "")
		}
	}
	return text
}
