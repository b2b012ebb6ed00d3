package openai

import (
	"cmp"
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/scheduler/generation"
)

// Tokenize answers POST /tokenize: with the tokens of a text, or of a chat's prompt if the body has messages, as vLLM.
func Tokenize(ctx context.Context, m Model, body []byte) ([]byte, error) {
	var which struct {
		Messages jsontext.Value `json:"messages"`
	}
	_ = json.Unmarshal(body, &which) // Decode says what is wrong
	var text struct {
		Strict
		Model      string `json:"model"`
		Prompt     string `json:"prompt"`
		AddSpecial *bool  `json:"add_special_tokens"`
	}
	c := &chat{model: m, served: m.Served()}
	into, chats := any(&text), Present(which.Messages)
	if chats {
		into = &c.chatRequest
	}
	if err := Decode(body, into); err != nil {
		return nil, err
	}
	if _, err := Choose(m, &c.served, cmp.Or(text.Model, c.Model)); err != nil { // an adapter has the model's vocabulary
		return nil, err
	}
	var ids []generation.Token
	var err error
	if !chats {
		ids, err = m.Tokenize(text.Prompt, text.AddSpecial == nil || *text.AddSpecial)
	} else if err = c.prompt(ctx); err == nil {
		ids = c.request.Prompt
	}
	if err != nil {
		return nil, err
	}
	return Marshal(map[string]any{"tokens": ids, "count": len(ids), "max_model_len": c.served.Window})
}
