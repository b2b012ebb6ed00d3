package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// ollama asks an endpoint of Ollama's own API.
type ollama struct{ *remote }

func ollamaNative(r *remote) tryFunc { return ollama{r}.try }

type ollamaMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type ollamaRequest struct {
	Model    string          `json:"model"`
	Messages []ollamaMessage `json:"messages"`
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
	Model           string         `json:"model"`
	Message         *ollamaMessage `json:"message"`
	DoneReason      string         `json:"done_reason"`
	PromptEvalCount int            `json:"prompt_eval_count"`
	EvalCount       int            `json:"eval_count"`
}

func (o ollama) try(ctx context.Context, q Question, mode string) (Answer, error) {
	body, err := json.Marshal(o.request(q, mode))
	if err != nil {
		return Answer{}, o.fail(KindRefused, "the answer's schema: "+err.Error())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	res, err := o.exchange(req, o.client.Do)
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return Answer{}, err
	}
	return o.read(answer, mode)
}

func (o ollama) request(q Question, mode string) ollamaRequest {
	req := ollamaRequest{Model: o.model, Options: ollamaOptions{NumPredict: maxTokens(q)}}
	if text := system(q, mode); text != "" {
		req.Messages = append(req.Messages, ollamaMessage{"system", text})
	}
	for _, m := range q.Messages {
		req.Messages = append(req.Messages, ollamaMessage{m.Role, m.Text})
	}
	if mode == ModeSchema {
		req.Format = json.RawMessage(q.Schema)
	}
	return req
}

func (o ollama) read(body []byte, mode string) (Answer, error) {
	var res ollamaResponse
	if err := json.Unmarshal(body, &res); err != nil {
		return Answer{}, err
	}
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
