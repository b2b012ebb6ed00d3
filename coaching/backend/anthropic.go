package backend

import (
	"context"
	"encoding/json"
	"strings"
)

// claudeResponse is an answer of an Anthropic messages endpoint: https://docs.anthropic.com/en/api/messages.
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

func (r *remote) tryClaude(ctx context.Context, q Question, mode string) (Answer, error) {
	block := func(text string) any { return []object{{"type": "text", "text": text}} }
	var list []object
	for _, m := range q.Messages {
		list = append(list, object{"role": m.Role, "content": block(m.Text)})
	}
	body := object{"model": r.model, "max_tokens": maxTokens(q), "messages": list}
	if text := system(q, mode); text != "" {
		body["system"] = block(text)
	}
	if mode == ModeTool {
		body["tools"] = []object{{"name": q.SchemaName, "description": toolDescription, "input_schema": q.Schema}}
		body["tool_choice"] = object{"type": "tool", "name": q.SchemaName, "disable_parallel_tool_use": true}
	}
	var res claudeResponse
	if err := r.post(ctx, body, &res); err != nil {
		return Answer{}, err
	}
	return r.readClaude(&res, mode)
}

func (r *remote) readClaude(res *claudeResponse, mode string) (Answer, error) {
	if res.Content == nil {
		return Answer{}, r.fail(KindGarbled, "it has no content")
	}
	switch res.StopReason {
	case "max_tokens", "model_context_window_exceeded":
		return Answer{}, r.fail(KindTruncated, atLimit)
	case "refusal":
		return Answer{}, r.fail(KindDeclined, res.StopDetail.Explanation)
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
