package backend

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"agentd/protocol"
)

// Finish reasons of unusable answers.
const (
	finishLength = "length"
	finishFilter = "content_filter"
)

// newLimitParam is the newer name of max_tokens.
const newLimitParam = "max_completion_tokens"

// chat asks a chat completions endpoint. It does not use the SDK's client, which reads OPENAI_API_KEY and other variables
// and would send the server's key to an endpoint that a client chose.
type chat struct {
	*remote
	service openai.ChatCompletionService

	// newLimit is set once the endpoint has rejected max_tokens. OpenAI's newer models want max_completion_tokens;
	// all other servers know max_tokens.
	newLimit atomic.Bool
}

func chatCompletions(r *remote) tryFunc {
	c := &chat{remote: r, service: openai.NewChatCompletionService(
		option.WithBaseURL(r.base()),
		option.WithHTTPClient(r.client),
		option.WithMiddleware(r.exchange),
		option.WithMaxRetries(0),
	)}
	return c.try
}

func (c *chat) try(ctx context.Context, q Question, mode string) (Answer, error) {
	params, err := c.params(q, mode)
	if err != nil {
		return Answer{}, c.fail(KindRefused, "the answer's schema: "+err.Error())
	}
	res, err := c.service.New(ctx, params)
	if !c.newLimit.Load() && refusesLimit(err) {
		c.newLimit.Store(true)
		c.limit(&params, q)
		res, err = c.service.New(ctx, params)
	}
	if err != nil {
		return Answer{}, err
	}
	return c.read(res, mode)
}

// refusesLimit reports whether an endpoint wants the token limit under its new name.
func refusesLimit(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == KindRefused && strings.Contains(e.Detail, newLimitParam)
}

func (c *chat) params(q Question, mode string) (openai.ChatCompletionNewParams, error) {
	params := openai.ChatCompletionNewParams{Model: c.model}
	c.limit(&params, q)
	if text := system(q, mode); text != "" {
		params.Messages = append(params.Messages, openai.SystemMessage(text))
	}
	for _, m := range q.Messages {
		if m.Role == RoleAssistant {
			params.Messages = append(params.Messages, openai.AssistantMessage(m.Text))
		} else {
			params.Messages = append(params.Messages, openai.UserMessage(m.Text))
		}
	}
	switch mode {
	case ModeSchema:
		params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
				Name: q.SchemaName, Strict: param.NewOpt(true), Schema: json.RawMessage(q.Schema),
			},
		}
	case ModeTool:
		schema, err := schemaMembers(q.Schema)
		if err != nil {
			return params, err
		}
		params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: q.SchemaName, Description: param.NewOpt(toolDescription), Parameters: schema,
		})}
		params.ToolChoice = openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: q.SchemaName})
	}
	return params, nil
}

// toolDescription describes the tool of ModeTool to the model.
const toolDescription = "Give your answer by calling this."

func (c *chat) limit(params *openai.ChatCompletionNewParams, q Question) {
	limit := param.NewOpt(int64(maxTokens(q)))
	if c.newLimit.Load() {
		params.MaxTokens, params.MaxCompletionTokens = param.Opt[int64]{}, limit
	} else {
		params.MaxTokens = limit
	}
}

func (c *chat) read(res *openai.ChatCompletion, mode string) (Answer, error) {
	if len(res.Choices) == 0 {
		return Answer{}, c.fail(KindGarbled, "it has no choices")
	}
	choice := res.Choices[0]
	switch {
	case !choice.JSON.Message.Valid():
		return Answer{}, c.fail(KindGarbled, "its choice has no message")
	case choice.Message.Refusal != "":
		return Answer{}, c.fail(KindDeclined, choice.Message.Refusal)
	case choice.FinishReason == finishFilter:
		return Answer{}, c.fail(KindDeclined, "a content filter stopped the answer")
	case choice.FinishReason == finishLength:
		return Answer{}, c.fail(KindTruncated, "")
	}
	a := Answer{
		Text: messageText(&choice.Message), Model: res.Model, Mode: ModeText,
		PromptTokens: int(res.Usage.PromptTokens), CompletionTokens: int(res.Usage.CompletionTokens),
	}
	switch calls := choice.Message.ToolCalls; {
	case mode == ModeTool && len(calls) > 0 && calls[0].Function.Arguments != "":
		a.Text, a.Mode = calls[0].Function.Arguments, ModeTool
	case mode == ModeSchema:
		a.Mode = schemaMode(a.Text)
	}
	return a, nil
}

// messageText is the text of a message. Content may be a list of parts, of which the texts count. A message with
// separate thoughts and no content ends within its thoughts.
func messageText(m *openai.ChatCompletionMessage) string {
	text := m.Content
	if raw := protocol.Raw(m.JSON.Content.Raw()); raw.Kind() == '[' {
		text = ""
		for part := range protocol.Elements(raw) {
			typ, _ := protocol.Get(part, "type")
			said, _ := protocol.Get(part, "text")
			if string(typ) == `"text"` {
				s, _ := protocol.Text(said)
				text += s
			}
		}
	}
	if strings.TrimSpace(text) != "" {
		return text
	}
	for _, name := range []string{"reasoning_content", "reasoning"} {
		value, _ := protocol.Get(protocol.Raw(m.RawJSON()), name)
		if thoughts, _ := protocol.Text(value); thoughts != "" {
			return "<think>\n" + strings.ReplaceAll(thoughts, "</think>", "")
		}
	}
	return text
}
