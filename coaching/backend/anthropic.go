package backend

import (
	"context"
	"encoding/json"
	"strings"
)

// claude asks an Anthropic messages endpoint: https://docs.anthropic.com/en/api/messages.
type claude struct{ *remote }

// claudeVersion is the version of the API. A session's header may name another one.
const claudeVersion = "2023-06-01"

func anthropicMessages(r *remote) tryFunc {
	r.version = claudeVersion
	return claude{r}.try
}

type claudeRequest struct {
	Model      string            `json:"model"`
	MaxTokens  int               `json:"max_tokens"`
	System     []claudeText      `json:"system,omitempty"`
	Messages   []message         `json:"messages"`
	Tools      []claudeToolParam `json:"tools,omitempty"`
	ToolChoice *claudeToolChoice `json:"tool_choice,omitempty"`
}

type claudeText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type claudeToolParam struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type claudeToolChoice struct {
	Type                   string `json:"type"`
	Name                   string `json:"name"`
	DisableParallelToolUse bool   `json:"disable_parallel_tool_use"`
}

type claudeResponse struct {
	Model      string `json:"model"`
	StopReason string `json:"stop_reason"`
	StopDetail struct {
		Explanation string `json:"explanation"`
	} `json:"stop_details"`
	Content []struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		Input json.RawMessage `json:"input"`
	} `json:"content"`
	Usage struct {
		InputTokens              int `json:"input_tokens"`
		CacheCreationInputTokens int `json:"cache_creation_input_tokens"`
		CacheReadInputTokens     int `json:"cache_read_input_tokens"`
		OutputTokens             int `json:"output_tokens"`
	} `json:"usage"`
}

func (c claude) try(ctx context.Context, q Question, mode string) (Answer, error) {
	var res claudeResponse
	if err := c.post(ctx, c.request(q, mode), &res); err != nil {
		return Answer{}, err
	}
	return c.read(&res, mode)
}

func (c claude) request(q Question, mode string) claudeRequest {
	req := claudeRequest{Model: c.model, MaxTokens: maxTokens(q)}
	if text := system(q, mode); text != "" {
		req.System = []claudeText{{"text", text}}
	}
	for _, m := range q.Messages {
		req.Messages = append(req.Messages, message{m.Role, []claudeText{{"text", m.Text}}})
	}
	if mode == ModeTool {
		req.Tools = []claudeToolParam{{q.SchemaName, toolDescription, json.RawMessage(q.Schema)}}
		req.ToolChoice = &claudeToolChoice{"tool", q.SchemaName, true}
	}
	return req
}

func (c claude) read(res *claudeResponse, mode string) (Answer, error) {
	if res.Content == nil {
		return Answer{}, c.fail(KindGarbled, "it has no content")
	}
	switch res.StopReason {
	case "max_tokens", "model_context_window_exceeded":
		return Answer{}, c.fail(KindTruncated, "")
	case "refusal":
		return Answer{}, c.fail(KindDeclined, res.StopDetail.Explanation)
	}
	a := Answer{
		Model: res.Model, Mode: ModeText,
		PromptTokens:     res.Usage.InputTokens + res.Usage.CacheCreationInputTokens + res.Usage.CacheReadInputTokens,
		CompletionTokens: res.Usage.OutputTokens,
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
