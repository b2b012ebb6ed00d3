package backend

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
)

// claude asks an Anthropic messages endpoint. It does not use the SDK's client, which reads ANTHROPIC_API_KEY, other
// variables and the profiles of the server's user.
type claude struct {
	*remote
	service anthropic.MessageService
}

func anthropicMessages(r *remote) tryFunc {
	c := &claude{remote: r, service: anthropic.NewMessageService(
		option.WithBaseURL(r.base()),
		option.WithHTTPClient(r.client),
		option.WithMiddleware(r.exchange),
		option.WithMaxRetries(0),
		option.WithRequestTimeout(sdkTimeout),
		option.WithOpenTelemetryPropagation(false),
	)}
	return c.try
}

func (c *claude) try(ctx context.Context, q Question, mode string) (Answer, error) {
	res, err := c.service.New(ctx, c.params(q, mode))
	if err != nil {
		return Answer{}, err
	}
	return c.read(res, mode)
}

func (c *claude) params(q Question, mode string) anthropic.MessageNewParams {
	params := anthropic.MessageNewParams{Model: c.model, MaxTokens: int64(maxTokens(q))}
	if text := system(q, mode); text != "" {
		params.System = []anthropic.TextBlockParam{{Text: text}}
	}
	for _, m := range q.Messages {
		block := anthropic.NewTextBlock(m.Text)
		if m.Role == RoleAssistant {
			params.Messages = append(params.Messages, anthropic.NewAssistantMessage(block))
		} else {
			params.Messages = append(params.Messages, anthropic.NewUserMessage(block))
		}
	}
	if mode == ModeTool {
		params.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
			Name: q.SchemaName, Description: param.NewOpt(toolDescription),
			InputSchema: param.Override[anthropic.ToolInputSchemaParam](json.RawMessage(q.Schema)),
		}}}
		params.ToolChoice.OfTool = &anthropic.ToolChoiceToolParam{Name: q.SchemaName, DisableParallelToolUse: param.NewOpt(true)}
	}
	return params
}

func (c *claude) read(res *anthropic.Message, mode string) (Answer, error) {
	if !res.JSON.Content.Valid() {
		return Answer{}, c.fail(KindGarbled, "it has no content")
	}
	switch res.StopReason {
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		return Answer{}, c.fail(KindTruncated, "")
	case anthropic.StopReasonRefusal:
		return Answer{}, c.fail(KindDeclined, res.StopDetails.Explanation)
	}
	a := Answer{
		Model: res.Model, Mode: ModeText,
		PromptTokens:     int(res.Usage.InputTokens + res.Usage.CacheCreationInputTokens + res.Usage.CacheReadInputTokens),
		CompletionTokens: int(res.Usage.OutputTokens),
	}
	var text strings.Builder
	for _, block := range res.Content {
		if mode == ModeTool && block.Type == "tool_use" && len(block.Input) > 0 {
			a.Text, a.Mode = string(block.Input), ModeTool
			return a, nil
		}
		text.WriteString(block.Text)
	}
	a.Text = text.String()
	return a, nil
}
