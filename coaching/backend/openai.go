package backend

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"agentd/protocol"
)

// Names of the limit of tokens. OpenAI's newer models accept only newLimitParam; other servers know limitParam.
const (
	limitParam    = "max_tokens"
	newLimitParam = "max_completion_tokens"
)

// chatResponse is an answer of a chat completions endpoint: https://platform.openai.com/docs/api-reference/chat/create.
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

// chatMessage is a model's message. Content is a text, or a list of parts of which the texts are used.
type chatMessage struct {
	Content          protocol.Raw `json:"content"`
	Refusal          string       `json:"refusal"`
	ReasoningContent protocol.Raw `json:"reasoning_content"`
	Reasoning        protocol.Raw `json:"reasoning"`
	ToolCalls        []struct {
		Function struct {
			Arguments protocol.Raw `json:"arguments"` // of some gateways an object instead of its text
		} `json:"function"`
	} `json:"tool_calls"`
}

func (r *remote) tryChat(ctx context.Context, q Question, mode string) (Answer, error) {
	body := object{"model": r.model, "messages": messages(q, mode)}
	switch mode {
	case ModeSchema:
		schema := object{"name": q.SchemaName, "strict": true, "schema": q.Schema}
		body["response_format"] = object{"type": "json_schema", "json_schema": schema}
	case ModeTool:
		tool := object{"name": q.SchemaName, "description": toolDescription, "parameters": q.Schema}
		body["tools"] = []object{{"type": "function", "function": tool}}
		body["tool_choice"] = object{"type": "function", "function": object{"name": q.SchemaName}}
	}
	var res chatResponse
	err := r.postLimited(ctx, body, maxTokens(q), &res)
	if err != nil {
		return Answer{}, err
	}
	return r.readChat(&res, mode)
}

// postLimited posts a body with a limit of tokens, with the newer name once the endpoint has rejected the older one.
func (r *remote) postLimited(ctx context.Context, body object, limit int, res *chatResponse) error {
	if !r.newLimit.Load() {
		body[limitParam] = limit
		err := r.post(ctx, body, res)
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != KindRefused || !strings.Contains(e.Detail, newLimitParam) {
			return err
		}
		r.newLimit.Store(true)
		delete(body, limitParam)
	}
	body[newLimitParam] = limit
	return r.post(ctx, body, res)
}

func (r *remote) readChat(res *chatResponse, mode string) (Answer, error) {
	if len(res.Choices) == 0 {
		return Answer{}, r.fail(KindGarbled, "it has no choices")
	}
	said, finish := res.Choices[0].Message, res.Choices[0].FinishReason
	switch {
	case said == nil:
		return Answer{}, r.fail(KindGarbled, "its choice has no message")
	case said.Refusal != "":
		return Answer{}, r.fail(KindDeclined, said.Refusal)
	case finish == finishFilter:
		return Answer{}, r.fail(KindDeclined, "a content filter stopped the answer")
	case finish == finishLength:
		return Answer{}, r.fail(KindTruncated, atLimit)
	}
	text := said.text()
	a := Answer{
		Text: text, Model: res.Model, Mode: schemaMode(mode, text),
		PromptTokens: res.Usage.PromptTokens, CompletionTokens: res.Usage.CompletionTokens,
	}
	if calls := said.ToolCalls; mode == ModeTool && len(calls) > 0 {
		arguments := calls[0].Function.Arguments
		if text, _ := protocol.Text(arguments); text != "" || arguments.Kind() == '{' {
			a.Text, a.Mode = cmp.Or(text, string(arguments)), ModeTool
		}
	}
	return a, nil
}

// text returns the text of a message. A message with separate reasoning and no content ended within its reasoning.
func (m *chatMessage) text() string {
	text, _ := protocol.Text(m.Content)
	for part := range protocol.Elements(m.Content) {
		if typ, _ := protocol.Get(part, "type"); string(typ) == `"text"` {
			said, _ := protocol.Get(part, "text")
			s, _ := protocol.Text(said)
			text += s
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
