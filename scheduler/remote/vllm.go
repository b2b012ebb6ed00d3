package remote

import (
	"cmp"
	"encoding/json"
	"fmt"

	"agentd/scheduler/generation"
)

// vllm is vLLM's POST /v1/completions, which agentd has too. A call with n completions
// draws them with seed, seed+1 and so on.
type vllm struct{}

type vllmRequest struct {
	Model          string             `json:"model,omitempty"`
	Prompt         []generation.Token `json:"prompt"`
	N              int                `json:"n"`
	MaxTokens      int                `json:"max_tokens"`
	Temperature    float32            `json:"temperature"`
	TopP           float32            `json:"top_p"`
	TopK           int                `json:"top_k"`
	MinP           float32            `json:"min_p"`
	Seed           uint32             `json:"seed"`
	StopTokenIDs   []generation.Token `json:"stop_token_ids,omitempty"`
	Stop           []string           `json:"stop,omitempty"`
	IgnoreEOS      bool               `json:"ignore_eos,omitempty"`
	MinTokens      int                `json:"min_tokens,omitempty"`
	Structured     map[string]string  `json:"structured_outputs,omitempty"`
	LogitBias      map[string]float64 `json:"logit_bias,omitempty"`
	Logprobs       *int               `json:"logprobs,omitempty"`
	ReturnTokenIDs bool               `json:"return_token_ids"`
	AddSpecial     bool               `json:"add_special_tokens"`
	SkipSpecial    bool               `json:"skip_special_tokens"`
}

func (vllm) path() string { return "/v1/completions" }

func (vllm) body(c *call) ([]byte, error) {
	r := vllmRequest{
		Model: cmp.Or(c.adapter, c.model), Prompt: c.Prompt, N: c.n, MaxTokens: c.MaxTokens, Seed: c.seed,
		Temperature: max(c.Temperature, 0), TopP: c.topP(), TopK: cmp.Or(max(c.TopK, 0), -1), MinP: max(c.MinP, 0),
		StopTokenIDs: c.ends, Stop: c.stops, IgnoreEOS: c.IgnoreEnd, MinTokens: c.Least, LogitBias: bias(c.excluded), ReturnTokenIDs: true,
		Logprobs: c.logprobs(0), // of the chosen tokens alone, before grammar, temperature and truncation
	}
	if c.grammar != "" {
		r.Structured = map[string]string{"grammar": ebnf(c.grammar)}
	}
	return json.Marshal(&r)
}

type vllmChoice struct {
	Index        int                `json:"index"`
	TokenIDs     []generation.Token `json:"token_ids"`
	FinishReason string             `json:"finish_reason"`
	Logprobs     *struct {
		Tokens []*float32 `json:"token_logprobs"`
	} `json:"logprobs"`
}

type vllmAnswer struct {
	Model   string          `json:"model"`
	Choices json.RawMessage `json:"choices"` // of vllmChoice
	Usage   struct {
		Prompt  int `json:"prompt_tokens"`
		Details *struct {
			Cached *int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

func (vllm) read(body []byte, n int) (answer, error) {
	var v vllmAnswer
	if err := json.Unmarshal(body, &v); err != nil {
		return answer{}, err
	}
	choices, err := elements[vllmChoice](v.Choices, n)
	if err != nil {
		return answer{}, fmt.Errorf("choices: %w", err)
	}
	a := answer{model: v.Model, prompt: v.Usage.Prompt, cached: -1}
	if d := v.Usage.Details; d != nil && d.Cached != nil {
		a.cached = *d.Cached
	}
	for _, c := range choices {
		if c.TokenIDs == nil {
			return answer{}, fmt.Errorf("choice %d has no token_ids; agentd needs an engine with return_token_ids (vLLM 0.10.2 or newer)", c.Index)
		}
		one := choice{index: c.Index, ids: c.TokenIDs, length: c.FinishReason == "length"}
		if c.FinishReason != "stop" && c.FinishReason != "length" {
			one.refused = c.FinishReason
		}
		if c.Logprobs != nil {
			one.logprobs = c.Logprobs.Tokens
		}
		a.choices = append(a.choices, one)
	}
	return a, nil
}
