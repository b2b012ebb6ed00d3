package backend

import "context"

// ollamaResponse is an answer of Ollama's own API: https://github.com/ollama/ollama/blob/main/docs/api.md.
type ollamaResponse struct {
	Model   string `json:"model"`
	Message *struct {
		Content string `json:"content"`
	} `json:"message"`
	DoneReason      string `json:"done_reason"`
	PromptEvalCount int    `json:"prompt_eval_count"`
	EvalCount       int    `json:"eval_count"`
}

func (r *remote) tryOllama(ctx context.Context, q Question, mode string) (Answer, error) {
	body := object{
		"model": r.model, "messages": messages(q, mode), "options": object{"num_predict": maxTokens(q)}, "stream": false,
		// Ollama silently drops the beginning of a prompt that exceeds its window. False makes that an error, since
		// version 0.12.6.
		"truncate": false, "shift": false,
	}
	if mode == ModeSchema {
		body["format"] = q.Schema
	}
	var res ollamaResponse
	err := r.post(ctx, body, &res)
	switch {
	case err != nil:
		return Answer{}, err
	case res.DoneReason == finishLength:
		return Answer{}, r.fail(KindTruncated, atLimit)
	case res.Message == nil:
		return Answer{}, r.fail(KindGarbled, "it has no message")
	}
	return Answer{
		Text: res.Message.Content, Model: res.Model, Mode: schemaMode(mode, res.Message.Content),
		PromptTokens: res.PromptEvalCount, CompletionTokens: res.EvalCount,
	}, nil
}
