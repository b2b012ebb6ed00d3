package backend

import (
	"context"
	"encoding/json"
)

// ollama asks an endpoint of Ollama's own API: https://github.com/ollama/ollama/blob/main/docs/api.md.
type ollama struct{ *remote }

func ollamaNative(r *remote) tryFunc { return ollama{r}.try }

type ollamaRequest struct {
	Model    string          `json:"model"`
	Messages []message       `json:"messages"`
	Format   json.RawMessage `json:"format,omitempty"`
	Options  ollamaOptions   `json:"options"`
	Stream   bool            `json:"stream"`

	// Ollama silently drops the beginning of a prompt that exceeds its window. False makes that an error, since
	// version 0.12.6.
	Truncate bool `json:"truncate"`
	Shift    bool `json:"shift"`
}

type ollamaOptions struct {
	NumPredict int `json:"num_predict"`
}

type ollamaResponse struct {
	Model   string `json:"model"`
	Message *struct {
		Content string `json:"content"`
	} `json:"message"`
	DoneReason      string `json:"done_reason"`
	PromptEvalCount int    `json:"prompt_eval_count"`
	EvalCount       int    `json:"eval_count"`
}

func (o ollama) try(ctx context.Context, q Question, mode string) (Answer, error) {
	var res ollamaResponse
	if err := o.post(ctx, o.request(q, mode), &res); err != nil {
		return Answer{}, err
	}
	return o.read(&res, mode)
}

func (o ollama) request(q Question, mode string) ollamaRequest {
	req := ollamaRequest{Model: o.model, Messages: messages(q, mode), Options: ollamaOptions{NumPredict: maxTokens(q)}}
	if mode == ModeSchema {
		req.Format = json.RawMessage(q.Schema)
	}
	return req
}

func (o ollama) read(res *ollamaResponse, mode string) (Answer, error) {
	switch {
	case res.DoneReason == finishLength:
		return Answer{}, o.fail(KindTruncated, "")
	case res.Message == nil:
		return Answer{}, o.fail(KindGarbled, "it has no message")
	}
	a := Answer{
		Text: res.Message.Content, Model: res.Model, Mode: ModeText,
		PromptTokens: res.PromptEvalCount, CompletionTokens: res.EvalCount,
	}
	if mode == ModeSchema {
		a.Mode = schemaMode(a.Text)
	}
	return a, nil
}
