package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"agentd/bench/workload"
)

// VLLM is a vLLM. It gets the tokens of agentd's prompts through /v1/completions, and
// answers with a fixed number of tokens.
type VLLM struct{ *remote }

// vllmRequest is the body of POST /v1/completions. It has no seed: then one draw serves
// all rows of a step, which is faster.
type vllmRequest struct {
	Prompt      []int32 `json:"prompt"`
	N           int     `json:"n"`
	MaxTokens   int     `json:"max_tokens"`
	IgnoreEOS   bool    `json:"ignore_eos"`
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	TopK        int     `json:"top_k"` // -1: all
	MinP        float64 `json:"min_p"`
}

// vllmAnswer is what the target reads of the answer.
type vllmAnswer struct {
	Choices []struct {
		Index  int    `json:"index"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Output int `json:"completion_tokens"`
	} `json:"usage"`
}

// Ask implements [Target]. The answer has no TTFT and no computed tokens; the counters
// have the latter.
func (v *VLLM) Ask(ctx context.Context, t *workload.Turn, o Options) (Answer, error) {
	if err := o.check(t); err != nil {
		return Answer{}, err
	}
	switch {
	case o.FixedTokens == 0:
		return Answer{}, errors.New("vllm is measured with fixed tokens only; set them")
	case len(t.Tokens) == 0:
		return Answer{}, turnError(t, "has no tokens; render the trace with the model file first")
	}
	r := vllmRequest{Prompt: t.Tokens, N: t.Candidates, MaxTokens: o.FixedTokens, IgnoreEOS: true, Temperature: 1, TopP: 1, TopK: -1}
	if o.Greedy {
		r.N, r.Temperature = 1, 0 // vLLM refuses several greedy choices
	}
	body, err := json.Marshal(&r)
	if err != nil {
		return Answer{}, err
	}
	text, _, err := v.exchange(ctx, http.MethodPost, "/v1/completions", body)
	if err != nil {
		return Answer{}, err
	}
	return readVLLM(text, &r, t.Candidates)
}

// readVLLM reads the answer to a request for n candidates.
func readVLLM(body []byte, r *vllmRequest, n int) (Answer, error) {
	var v vllmAnswer
	if err := json.Unmarshal(body, &v); err != nil {
		return Answer{}, contract("the answer can't be read: %w", err)
	}
	switch want := r.N * r.MaxTokens; {
	case len(v.Choices) != r.N:
		return Answer{}, contract("the answer has %d candidates instead of %d", len(v.Choices), r.N)
	case v.Usage.Prompt != len(r.Prompt):
		return Answer{}, contract("the prompt has %d tokens at the server; %d were sent", v.Usage.Prompt, len(r.Prompt))
	case v.Usage.Output != want:
		return Answer{}, contract("the candidates have %d tokens instead of %d; is --max-model-len large enough?", v.Usage.Output, want)
	}
	for _, c := range v.Choices {
		if c.Finish != "length" {
			return Answer{}, contract("candidate %d ended with %.40q instead of length", c.Index, c.Finish)
		}
	}
	a := Answer{PromptTokens: len(r.Prompt), ComputedTokens: -1, First: -1, Copies: r.N < n, OutputTokens: n * r.MaxTokens}
	for range n {
		a.Candidates = append(a.Candidates, Candidate{Tokens: r.MaxTokens})
	}
	return a, nil
}

// Counters implements [Target].
func (v *VLLM) Counters(ctx context.Context) (Counters, error) {
	m, err := v.metrics(ctx)
	if err != nil {
		return Counters{}, err
	}
	const prompts, iterations = "vllm:prompt_tokens_by_source_total", "vllm:iteration_tokens_total"
	c := Counters{
		Prefilled: m.by(prompts, "source")["local_compute"],
		CellsUsed: -1,
	}
	for _, x := range m[iterations].GetMetric() {
		c.Steps += float64(x.GetHistogram().GetSampleCount())
		c.Rows += x.GetHistogram().GetSampleSum()
	}
	if m[prompts] == nil || m[iterations] == nil {
		return Counters{}, fmt.Errorf("%w: /metrics has no %s or no %s; is it vLLM?", ErrNoCounters, prompts, iterations)
	}
	return c, nil
}

// Describe implements [Target].
func (v *VLLM) Describe(ctx context.Context) (map[string]string, error) {
	body, err := v.get(ctx, "/version")
	if err != nil {
		return nil, err
	}
	var about struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(body, &about); err != nil {
		return nil, contract("/version: %w", err)
	}
	return map[string]string{"server": KindVLLM, "version": about.Version}, nil
}
