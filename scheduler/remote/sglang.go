package remote

import (
	"cmp"
	"encoding/json"
	"fmt"

	"agentd/scheduler/generation"
)

// sglang is SGLang's POST /generate.
type sglang struct {
	// seeded: the engine samples by the seed (--enable-deterministic-inference). It would use the same seed for all
	// completions of a request, so each completion is a request in the batch of the call. Other engines ignore seeds.
	seeded bool
}

type sglangRequest struct {
	InputIDs any `json:"input_ids"`       // of one prompt, or a list of such lists, one for each prompt of a batch
	Sampling any `json:"sampling_params"` // one, or a list
	// Adapter is the name of a LoRA adapter, for the whole batch.
	Adapter string `json:"lora_path,omitempty"`
}

type sglangSampling struct {
	N            int                `json:"n"`
	MaxNewTokens int                `json:"max_new_tokens"`
	Temperature  float32            `json:"temperature"`
	TopP         float32            `json:"top_p"`
	TopK         int                `json:"top_k"`
	MinP         float32            `json:"min_p"`
	Seed         uint32             `json:"sampling_seed"`
	StopTokenIDs []generation.Token `json:"stop_token_ids,omitempty"`
	Stop         []string           `json:"stop,omitempty"`
	IgnoreEOS    bool               `json:"ignore_eos,omitempty"`
	MinNewTokens int                `json:"min_new_tokens,omitempty"`
	EBNF         string             `json:"ebnf,omitempty"`
	LogitBias    map[string]float64 `json:"logit_bias,omitempty"`
	SkipSpecial  bool               `json:"skip_special_tokens"`
	NoStopTrim   bool               `json:"no_stop_trim"`
}

func (sglang) path() string { return "/generate" }

func (d sglang) body(c *call) ([]byte, error) {
	s := sglangSampling{
		N: c.n, MaxNewTokens: c.MaxTokens, Seed: c.seed & (1<<31 - 1),
		Temperature: max(c.Temperature, 0), TopP: c.topP(), TopK: cmp.Or(max(c.TopK, 0), -1), MinP: max(c.MinP, 0),
		StopTokenIDs: c.ends, Stop: c.stops, IgnoreEOS: c.IgnoreEnd, MinNewTokens: c.Least, EBNF: ebnf(c.grammar), LogitBias: bias(c.excluded), NoStopTrim: true,
	}
	if !d.seeded || c.n == 1 {
		return json.Marshal(&sglangRequest{c.Prompt, s, c.adapter})
	}
	prompts, settings := make([][]generation.Token, c.n), make([]sglangSampling, c.n)
	s.N = 1
	for i := range settings {
		s.Seed = (c.seed + uint32(i)) & (1<<31 - 1)
		prompts[i], settings[i] = c.Prompt, s
	}
	return json.Marshal(&sglangRequest{prompts, settings, c.adapter})
}

type sglangAnswer struct {
	OutputIDs []generation.Token `json:"output_ids"`
	Meta      struct {
		Finish struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"finish_reason"`
		Prompt int `json:"prompt_tokens"`
		Cached int `json:"cached_tokens"`
	} `json:"meta_info"`
}

func (sglang) read(body []byte, n int) (answer, error) {
	list, err := elements[sglangAnswer](body, n)
	if err != nil {
		return answer{}, err
	}
	var a answer
	for i, one := range list {
		if one.OutputIDs == nil {
			return answer{}, fmt.Errorf("completion %d has no output_ids; agentd needs SGLang 0.4.6 or newer", i)
		}
		c := choice{index: i, ids: one.OutputIDs, length: one.Meta.Finish.Type == "length"}
		if t := one.Meta.Finish.Type; t != "stop" && t != "length" {
			c.refused = t + ": " + one.Meta.Finish.Message
		}
		a.choices = append(a.choices, c)
		a.prompt, a.cached = one.Meta.Prompt, max(a.cached, one.Meta.Cached)
	}
	return a, nil
}
