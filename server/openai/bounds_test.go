package openai

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"agentd/scheduler/generation"
)

// roomy is a model with a long context.
type roomy struct{ *scripted }

func (m roomy) Served() generation.Served {
	s := m.scripted.Served()
	s.Window = 1 << 20
	return s
}

// asks are the ways to ask with a field: a completion, a chat, and sampling parameters of generate.
var asks = map[string]func(t *testing.T, m Model, field string) error{
	"completion": func(t *testing.T, m Model, field string) error {
		if !strings.Contains(field, `"prompt":`) {
			field = `"prompt": "ab", ` + field
		}
		_, err := Complete(t.Context(), m, "1", []byte(`{`+field+`}`), nowhere)
		return err
	},
	"chat": func(t *testing.T, m Model, field string) error {
		if !strings.Contains(field, `"messages":`) {
			field = hello + ", " + field
		}
		_, err := Chat(t.Context(), m, "1", []byte(`{`+field+`}`), nowhere)
		return err
	},
	"generate": func(t *testing.T, m Model, field string) error {
		_, err := Generate(t.Context(), m, "1", []byte(`{"token_ids": [1, 2], "sampling_params": {`+field+`}}`), nowhere)
		return err
	},
	"generate, outside": func(t *testing.T, m Model, field string) error {
		if !strings.Contains(field, `"token_ids":`) {
			field = `"token_ids": [1, 2], ` + field
		}
		if !strings.Contains(field, `"sampling_params":`) {
			field += `, "sampling_params": {}`
		}
		_, err := Generate(t.Context(), m, "1", []byte(`{`+field+`}`), nowhere)
		return err
	},
	"detokenize": func(t *testing.T, m Model, field string) error {
		_, err := Detokenize(m, []byte(`{`+field+`}`))
		return err
	},
}

// nowhere is a client whose events nobody looks at.
var nowhere = Stream{Send: func([]byte) error { return nil }}

// times is a list of so many values.
func times(n int, value string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(value+",", n), ",") + "]"
}

// long is a text in JSON of so many bytes.
func long(n int) string { return `"` + strings.Repeat("a", n) + `"` }

// biased excludes 200 tokens with so many members.
func biased(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `, "%0*d": -100`, 3+i/200, i%200)
	}
	return `"logit_bias": {` + b.String()[2:] + `}`
}

// TestBoundsAreTheLastValuesThatAreAccepted, and a value beyond names its field.
func TestBoundsAreTheLastValuesThatAreAccepted(t *testing.T) {
	const grammar = `"structured_outputs": {"grammar": "root ::= \"ok\""}`
	for _, c := range []struct {
		ways            string
		field           string // of the errors
		accept, refused []string
	}{
		{"completion chat generate", "n", []string{
			`"n": 1`, `"n": 256`, `"n": 1.0, "seed": -2e1, "top_k": 5.0, "max_tokens": 5.0`,
		}, []string{`"n": 0`, `"n": 257`, `"n": 1e99`}},
		{"completion chat generate", "max_tokens", []string{`"max_tokens": 1`}, []string{`"max_tokens": 0`, `"max_tokens": 1048575`}},
		{"completion chat generate", "temperature", []string{`"temperature": 0`, `"temperature": 10`}, []string{`"temperature": -0.1`, `"temperature": 10.1`}},
		{"completion chat generate", "top_p", []string{`"top_p": 0.01`, `"top_p": 1`}, []string{`"top_p": 0`, `"top_p": 1.1`}},
		{"completion chat generate", "top_k", []string{`"top_k": -1`, `"top_k": 0`, `"top_k": 9999`}, []string{`"top_k": -2`}},
		{"completion chat generate", "min_p", []string{`"min_p": 0`, `"min_p": 1`}, []string{`"min_p": -0.1`, `"min_p": 1.1`}},
		{"completion chat generate", "presence_penalty", []string{`"presence_penalty": 0`}, []string{`"presence_penalty": 0.5`}},
		{"completion chat generate", "frequency_penalty", []string{`"frequency_penalty": 0`}, []string{`"frequency_penalty": 0.5`}},
		{"completion chat generate", "repetition_penalty", []string{`"repetition_penalty": 1`}, []string{`"repetition_penalty": 0`}},
		{"completion chat generate", "min_tokens", []string{
			`"min_tokens": 0, ` + grammar + `, "stop": "a"`, `"min_tokens": 20, "stop_token_ids": [256]`, `"min_tokens": 5, "max_tokens": 5`,
		}, []string{`"min_tokens": -1`, `"min_tokens": 6, "max_tokens": 5`, `"min_tokens": 1, ` + grammar, `"min_tokens": 1, "stop": "a"`, `"min_tokens": 1, "stop_token_ids": [1]`}},
		{"completion chat generate", "bad_words", []string{`"bad_words": []`}, []string{`"bad_words": ["a"]`}},
		{"completion chat generate", "stop", []string{`"stop": ` + times(32, `"a"`), `"stop": ` + long(256), `"stop": []`}, []string{`"stop": ` + times(33, `"a"`), `"stop": ` + long(257), `"stop": ["a", ""]`}},
		{"completion chat generate, outside", "stream_options", []string{`"stream": true, "stream_options": {}`, `"stream": true, "stream_options": {"continuous_usage_stats": true}`}, []string{`"stream_options": {}`}},
		{"completion chat generate, outside", "priority", []string{`"priority": 100`, `"priority": -100`}, []string{`"priority": 101`, `"priority": -101`}},
		{"completion chat generate, outside", "cache_salt", []string{`"cache_salt": "a"`, `"cache_salt": ` + long(128)}, []string{`"cache_salt": ""`, `"cache_salt": ` + long(129)}},
		{"completion chat generate, outside", "request_id", []string{`"request_id": ""`, `"request_id": ` + long(256)}, []string{`"request_id": ` + long(257)}},
		{"completion chat generate", "logit_bias", []string{`"logit_bias": {}`, `"logit_bias": {"0": -100, "256": -101}`, biased(4096)}, []string{`"logit_bias": {"-1": -100}`, `"logit_bias": {"257": -100}`, biased(4097)}},
		{"completion chat generate", "logit_bias.1", nil, []string{`"logit_bias": {"1": -99.9}`}},
		{"completion generate", "logprobs", []string{`"logprobs": 0`, `"logprobs": 20, "max_tokens": 5`}, []string{`"logprobs": -1`, `"logprobs": 21`}},
		{"completion generate", "prompt_logprobs", []string{`"prompt_logprobs": 0`, `"prompt_logprobs": 128`}, []string{`"prompt_logprobs": -1`, `"prompt_logprobs": 129`}},
		{"generate, outside", "prompt_logprobs", []string{`"token_ids": ` + times(2048, "1") + `, "sampling_params": {"prompt_logprobs": 127}`}, []string{
			`"token_ids": ` + times(2049, "1") + `, "sampling_params": {"prompt_logprobs": 127}`, `"stream": true, "sampling_params": {"prompt_logprobs": 0}`,
		}},
		{"completion chat generate", "ignore_eos", []string{`"ignore_eos": true`, `"ignore_eos": false, ` + grammar}, []string{`"ignore_eos": true, ` + grammar}},
		{"completion generate", "structured_outputs", []string{grammar}, []string{`"structured_outputs": {}`}},
		{"completion chat generate", "stop_token_ids", []string{`"stop_token_ids": ` + times(4096, "1")}, []string{`"stop_token_ids": ` + times(4097, "1")}},
		{"completion chat generate", "stop_token_ids[1]", []string{`"stop_token_ids": [0, 256]`}, []string{`"stop_token_ids": [0, 257]`, `"stop_token_ids": [0, -1]`}},
		{"completion chat", "skip_special_tokens", []string{`"skip_special_tokens": true`, `"skip_special_tokens": false, "return_token_ids": true`}, []string{`"skip_special_tokens": false`}},
		{"completion", "prompt_logprob_start", []string{
			`"prompt_logprob_start": 0`, `"prompt_logprob_start": 1, "prompt_logprobs": 0`, `"prompt_logprob_start": 1, "echo": true, "logprobs": 0`,
		}, []string{`"prompt_logprob_start": -1, "prompt_logprobs": 0`, `"prompt_logprob_start": 1`, `"prompt_logprob_start": 1, "echo": true`, `"prompt_logprob_start": 1, "logprobs": 0`}},
		{"completion chat", "best_of", []string{`"best_of": 1`, `"n": 2, "best_of": 1`}, []string{`"best_of": 2`}},
		{"completion chat generate", "use_beam_search", []string{
			`"use_beam_search": false, "length_penalty": 1.0, "include_stop_str_in_output": false`,
			`"routed_experts_prompt_start": 0, "skip_reading_prefix_cache": false, "ignore_eos": false`,
		}, []string{`"use_beam_search": true`, `"use_beam_search": 0`}},
		{"completion chat", "length_penalty", []string{
			`"return_token_offsets": false, "echo": false, "repetition_penalty": 1.0`,
		}, []string{`"length_penalty": 0.9`}},
		{"chat", "include_reasoning", []string{
			`"best_of": 1, "add_generation_prompt": true, "continue_final_message": false`,
			`"include_reasoning": true, "add_special_tokens": false`,
		}, []string{`"include_reasoning": false`}},
		{"chat", "messages[0].echo", nil, []string{`"messages": [{"role": "user", "echo": false}]`}},
		{"completion", "stream", []string{`"stream": true`, `"echo": true`}, []string{`"stream": true, "echo": true`, `"stream": true, "prompt_logprobs": 0`}},
		{"completion", "max_tokens", []string{`"max_tokens": 0, "echo": true`, `"max_tokens": 0, "prompt_logprobs": 0`}, []string{`"max_tokens": 0, "logprobs": 0`}},
		{"completion", "prompt", []string{
			`"prompt": ` + times(256, `"a"`), `"n": 2, "prompt": ` + times(128, `"a"`), `"prompt": [0, 256]`, `"prompt": ` + long(1<<20-1), `"prompt": ["ab"], "echo": true, "max_tokens": 0`,
		}, []string{
			`"prompt": ` + times(257, `"a"`), `"n": 2, "prompt": ` + times(129, `"a"`), `"prompt": []`, `"prompt": ` + long(1<<20), `"prompt": "a", "echo": true, "max_tokens": 0`, `"prompt": null`,
		}},
		{"completion", "prompt[0]", nil, []string{`"prompt": [257]`, `"prompt": [-1]`}},
		{"completion", "continue", []string{`"continue": [[0, 256]]`, `"n": 2, "continue": [[1], []]`, `"n": 2, "prompt": ["a", "b"], "continue": [[1], [], [2], [3]]`}, []string{`"n": 2, "continue": [[1]]`, `"continue": []`, `"continue": [[1], [2]]`}},
		{"completion", "continue[0][0]", nil, []string{`"continue": [[257]]`, `"continue": [[-1]]`}},
		{"chat", "max_completion_tokens", []string{`"max_completion_tokens": 1`}, []string{`"max_completion_tokens": 0`}},
		{"chat", "top_logprobs", []string{`"top_logprobs": 0`, `"top_logprobs": 20.0, "logprobs": true`, `"logprobs": true`}, []string{`"top_logprobs": 1`, `"top_logprobs": 21, "logprobs": true`, `"top_logprobs": -1, "logprobs": true`}},
		{"chat", "tool_choice", []string{`"tool_choice": "none"`}, []string{`"tool_choice": {"type": "tool", "function": {"name": "f"}}`, `"tool_choice": {"type": "function", "function": {}}`,
			`"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "none", "tools": [{"type": "function", "function": {"name": "f"}}]}}`,
			`"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}`}},
		{"chat", "tools[0].type", nil, []string{`"tools": [{"type": "search", "function": {"name": "f"}}]`}},
		{"chat", "response_format", []string{
			`"response_format": {"type": "text"}, "tools": [{"type": "function", "function": {"name": "f"}}]`,
			`"response_format": {"type": "json_object"}, "tool_choice": "none", "tools": [{"type": "function", "function": {"name": "f"}}]`,
			`"response_format": {"type": "json_object"}, "tools": [{"type": "function", "function": {"name": "f"}}]`,
		}, nil},
		{"chat", "stream_options.include_obfuscation", []string{`"stream": true, "stream_options": {"include_obfuscation": false}`}, []string{`"stream": true, "stream_options": {"include_obfuscation": true}`}},
		{"chat", "messages[0].content", []string{`"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "image_url": null}]}]`}, []string{
			`"messages": [{"role": "user", "content": [{"type": "image_url"}]}]`, `"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]`,
		}},
		{"chat", "messages", []string{`"messages": [{"role": "user"}, {"role": "assistant"}]`, `"messages": [{"role": "assistant"}, {"role": "user"}]`}, []string{
			`"messages": [{"role": "system", "content": ""}]`,
		}},
		{"generate, outside", "token_ids", []string{`"token_ids": ` + times(1<<20-1, "1")}, []string{`"token_ids": ` + times(1<<20, "1"), `"token_ids": []`}},
		{"generate, outside", "token_ids[0]", []string{`"token_ids": [0, 256]`}, []string{`"token_ids": [257]`, `"token_ids": [-1]`}},
		{"generate, outside", "sampling_params", nil, []string{`"sampling_params": null`}},
		{"generate, outside", "output_mode", []string{`"output_mode": ""`, `"output_mode": "text"`, `"output_mode": "tokens"`}, []string{`"output_mode": "ids"`}},
		{"generate, outside", "sampling_params.detokenize", []string{
			`"sampling_params": {"detokenize": false}`, `"output_mode": "text", "sampling_params": {"detokenize": true}`,
		}, []string{`"output_mode": "text", "sampling_params": {"detokenize": false}`}},
		{"generate, outside", "sampling_params.skip_special_tokens", []string{
			`"sampling_params": {"skip_special_tokens": false}`, `"output_mode": "text", "sampling_params": {"skip_special_tokens": true}`,
		}, []string{`"output_mode": "text", "sampling_params": {"skip_special_tokens": false}`}},
		{"detokenize", "tokens[1]", []string{`"tokens": [0, 256]`, `"tokens": []`}, []string{`"tokens": [0, 257]`, `"tokens": [0, -1]`}},
	} {
		for name, ask := range asks {
			inside := name == "generate" && strings.Contains(c.ways+" ", "generate ")
			if !inside && (name == "generate" || !strings.Contains(c.ways, name)) {
				continue
			}
			want := c.field
			if inside || name == "generate, outside" && c.field == "prompt_logprobs" {
				want = "sampling_params." + want
			}
			for _, field := range c.accept {
				if err := ask(t, roomy{&scripted{text: "ok"}}, field); err != nil {
					t.Errorf("%s with %.80s: %v", name, field, err)
				}
			}
			for _, field := range c.refused {
				var refused *Error
				if err := ask(t, roomy{&scripted{text: "ok"}}, field); !errors.As(err, &refused) || refused.Param != want {
					t.Errorf("%s with %.80s: %v, want an error of %s", name, field, err, want)
				}
			}
		}
	}
}

// TestAlternativesHaveABoundTogether: of all tokens of all choices.
func TestAlternativesHaveABoundTogether(t *testing.T) {
	for _, c := range []struct {
		n, tokens, top int
		refused        bool
	}{
		{1, maxTops / 2, 1, false}, {1, maxTops/2 + 1, 1, true}, {2, maxTops / 4, 1, false}, {2, maxTops/4 + 1, 1, true}, {256, 1 << 20, 0, false},
		{1, 1, -1, true}, {1, 1, maxTop, false}, {1, 1, maxTop + 1, true},
	} {
		p := generation.Params{N: c.n, MaxTokens: c.tokens}
		err := scored(&p, "x", c.top)
		if (err != nil) != c.refused || err == nil && (!p.Scores || !p.Sample || p.Top != c.top) {
			t.Errorf("%+v: %v, %+v", c, err, p)
		}
	}
	for scores, refused := range map[int]bool{maxScored: false, maxScored + 1: true} {
		c := &completion{completionRequest: completionRequest{PromptLogprobs: new(int)}}
		c.requests = []generation.Request{{Prompt: make([]generation.Token, 5), Params: generation.Params{ScoreFrom: 1}}, {Prompt: make([]generation.Token, scores-3), Params: generation.Params{ScoreFrom: 1}}}
		if err := c.share(); (err != nil) != refused {
			t.Errorf("%d scores: %v", scores, err)
		}
	}
}

// adapted is a model with so many adapters.
type adapted struct {
	*scripted
	n int
}

func (adapted) Adapter(string) (generation.AdapterID, bool) { return 0, false }
func (m adapted) Adapters() (names []string) {
	for i := range m.n {
		names = append(names, fmt.Sprint("a", i))
	}
	return names
}

func TestManyModelsAreNotAllListed(t *testing.T) {
	for n, want := range map[int]string{19: ", a18", 20: ", a18, ..."} {
		_, err := Complete(t.Context(), adapted{&scripted{}, n}, "1", []byte(`{"prompt": "a", "model": "x"}`), nowhere)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d adapters: %v", n, err)
		}
	}
}

func TestErrorsHaveOpenAIsForm(t *testing.T) {
	for status, want := range map[int]string{400: "invalid_request_error", 422: "server_error", 499: "invalid_request_error", 500: "server_error"} {
		if got := string(AppendError(status, "m", "")); got != fmt.Sprintf(`{"error":{"code":"%d","message":"m","param":null,"type":"%s"}}`, status, want) {
			t.Errorf("%d: %s", status, got)
		}
	}
}
