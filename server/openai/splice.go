package openai

import (
	"slices"

	"agentd/scheduler/generation"
)

// spoken has the tokens of an assistant message, prompt and answer, which NeMo Gym sends back. With them the next
// prompt begins with the sampled tokens; its text might be tokenized differently.
type spoken struct {
	PromptIDs    []generation.Token `json:"prompt_token_ids"`
	GeneratedIDs []generation.Token `json:"generation_token_ids"`
	Logprobs     []float32          `json:"generation_log_probs"` // ignored
}

// splice replaces the beginning of a chat's prompt by the tokens of the last message that has any, and keeps the prompt
// after that message. It finds the end of the message by counting end tokens, since each message has one.
func (r *chatRequest) splice(prompt []generation.Token, s *generation.Served) ([]generation.Token, error) {
	at := -1
	for i := range r.Messages {
		m, field := &r.Messages[i], path("messages", i)
		switch n := len(m.PromptIDs); {
		case n == 0 && len(m.GeneratedIDs) == 0:
			continue
		case m.Role != "assistant":
			return nil, Refuse(field+".prompt_token_ids", "is for the role assistant; remove it")
		case n == 0 || len(m.GeneratedIDs) == 0:
			return nil, Refuse(field+".prompt_token_ids", "needs generation_token_ids, and these need it")
		}
		for name, ids := range map[string][]generation.Token{"prompt_token_ids": m.PromptIDs, "generation_token_ids": m.GeneratedIDs} {
			if err := known(field+"."+name, ids, s); err != nil {
				return nil, err
			}
		}
		at = i
	}
	if at < 0 {
		return prompt, nil
	}
	m := &r.Messages[at]
	given := slices.Concat(m.PromptIDs, m.GeneratedIDs)
	isEnd := func(id generation.Token) bool { return slices.Contains(s.Ends, id) }
	ends := 0
	for _, id := range given {
		if isEnd(id) {
			ends++
		}
	}
	whole := isEnd(given[len(given)-1])
	if !whole { // it was cut off, and the prompt has its end
		ends++
	}
	first := slices.IndexFunc(prompt, isEnd)
	for i, id := range prompt {
		if !isEnd(id) {
			continue
		}
		if ends--; ends > 0 {
			continue
		}
		if first >= len(m.PromptIDs) || !slices.Equal(prompt[:first], m.PromptIDs[:first]) {
			break
		}
		if whole {
			i++
		}
		return append(given, prompt[i:]...), nil
	}
	return nil, Refuse(path("messages", at)+".prompt_token_ids", "are of another conversation; remove the token ids of its messages")
}
