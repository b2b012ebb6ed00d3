package openai

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// TokenizeChat answers POST /tokenize with messages, as vLLM: with the tokens of a chat's prompt. ok is false for a
// body without messages.
func TokenizeChat(ctx context.Context, m Model, body []byte) (answer []byte, ok bool, err error) {
	var r chatRequest
	var which struct {
		Messages jsontext.Value `json:"messages"`
	}
	_ = json.Unmarshal(body, &which) // Tokenize says what is wrong
	if !present(which.Messages) {
		return nil, false, nil
	}
	if err := Decode(body, &r); err != nil {
		return nil, true, err
	}
	c := &chat{chatRequest: r, model: m, served: m.Served()}
	if _, err := Choose(m, &c.served, r.Model); err != nil {
		return nil, true, err
	}
	talk, err := c.conversation(ctx)
	if err != nil {
		return nil, true, err
	}
	request, _, err := m.Chat(ctx, talk)
	if err == nil {
		request.Prompt, err = r.splice(request.Prompt, &c.served)
	}
	if err != nil {
		return nil, true, c.refused(err)
	}
	answer, err = Marshal(map[string]any{"tokens": request.Prompt, "count": len(request.Prompt), "max_model_len": c.served.Window})
	return answer, true, err
}
