package remote

import (
	"encoding/json"
	"fmt"

	"agentd/scheduler/generation"
)

// llamaServer is POST /completion of llama.cpp's server. A call with n_cmpl completions draws
// them with seed, seed+1 and so on, and needs n_cmpl free slots.
type llamaServer struct{}

type llamaRequest struct {
	Prompt      []generation.Token `json:"prompt"`
	N           int                `json:"n_cmpl"`
	NPredict    int                `json:"n_predict"`
	Temperature float32            `json:"temperature"`
	TopP        float32            `json:"top_p"`
	TopK        int                `json:"top_k"`
	MinP        float32            `json:"min_p"`
	Samplers    []string           `json:"samplers"`
	Seed        uint32             `json:"seed"`
	IgnoreEOS   bool               `json:"ignore_eos,omitempty"`
	Stop        []string           `json:"stop,omitempty"`
	Grammar     string             `json:"grammar,omitempty"`
	LogitBias   [][2]any           `json:"logit_bias,omitempty"`
	// LoRA has the scale of each adapter. With it, CachePrompt must be false: the server's prompt cache in host
	// memory does not distinguish adapters.
	LoRA         json.RawMessage `json:"lora,omitempty"`
	CachePrompt  bool            `json:"cache_prompt"`
	ReturnTokens bool            `json:"return_tokens"`
	NProbs       *int            `json:"n_probs,omitempty"`
	Fields       []string        `json:"response_fields"`
}

var llamaFields = []string{"index", "tokens", "stop_type", "tokens_evaluated", "tokens_cached", "timings", "completion_probabilities"}

func (llamaServer) path() string { return "/completion" }

func (llamaServer) body(c *call) ([]byte, error) {
	r := llamaRequest{
		Prompt: c.Prompt, N: c.n, NPredict: c.MaxTokens, Seed: c.seed & (1<<31 - 1), IgnoreEOS: c.IgnoreEnd, Stop: c.stops, Grammar: c.grammar,
		Temperature: c.Temperature, TopP: 1, LoRA: c.loras, CachePrompt: c.loras == nil, ReturnTokens: true, Fields: llamaFields,
		Samplers: []string{"top_k", "top_p", "min_p", "temperature"},
	}
	if c.Temperature <= 0 {
		r.Temperature, r.TopK, r.Samplers = 0, 1, []string{"top_k"}
	} else {
		r.TopK, r.MinP, r.TopP = max(c.TopK, 0), max(c.MinP, 0), c.topP()
	}
	for _, id := range c.excluded {
		r.LogitBias = append(r.LogitBias, [2]any{id, false})
	}
	r.NProbs = c.logprobs(1) // before all samplers and the grammar
	return json.Marshal(&r)
}

type llamaAnswer struct {
	Index     int                `json:"index"`
	Tokens    []generation.Token `json:"tokens"`
	StopType  string             `json:"stop_type"`
	Evaluated int                `json:"tokens_evaluated"`
	Timings   struct {
		Cached *int `json:"cache_n"`
	} `json:"timings"`
	Probabilities []struct {
		ID      generation.Token `json:"id"`
		Logprob *float32         `json:"logprob"`
	} `json:"completion_probabilities"`
}

// logprobs returns the logprob of each token. The server omits tokens that end within a character,
// and an end token that it does not return.
func (a *llamaAnswer) logprobs() []*float32 {
	if len(a.Probabilities) == 0 {
		return nil
	}
	list := make([]*float32, len(a.Tokens))
	rest := a.Probabilities
	for i, id := range a.Tokens {
		if len(rest) > 0 && rest[0].ID == id {
			list[i], rest = rest[0].Logprob, rest[1:]
		}
	}
	return list
}

func (llamaServer) read(body []byte, n int) (answer, error) {
	list, err := elements[llamaAnswer](body, n)
	if err != nil {
		return answer{}, err
	}
	a := answer{cached: -1}
	for _, one := range list {
		if one.Tokens == nil {
			return answer{}, fmt.Errorf("completion %d has no tokens; agentd needs a llama-server with return_tokens", one.Index)
		}
		c := choice{index: one.Index, ids: one.Tokens, length: one.StopType == "limit", logprobs: one.logprobs()}
		a.choices = append(a.choices, c)
		a.prompt = one.Evaluated
		if one.Timings.Cached != nil {
			// Other completions of the call share the first one's prompt.
			if a.cached < 0 || *one.Timings.Cached < a.cached {
				a.cached = *one.Timings.Cached
			}
		}
	}
	return a, nil
}
