package openai

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/scheduler/generation"
)

func TestGenerateRefusesWhatItDoesNotKnowByName(t *testing.T) {
	for want, body := range map[string]string{
		"token_ids: is missing or empty":                   `{"sampling_params": {}}`,
		"token_ids[1]: is 257":                             `{"token_ids": [1, 257], "sampling_params": {}}`,
		"token_ids[0]: is -1":                              `{"token_ids": [-1], "sampling_params": {}}`,
		"token_ids: has 100 tokens":                        `{"token_ids": [` + strings.Repeat("1,", 99) + `1], "sampling_params": {}}`,
		"token_ids[0]: must be an integer":                 `{"token_ids": ["a"], "sampling_params": {}}`,
		"sampling_params: is missing":                      `{"token_ids": [1]}`,
		"sampling_params.max_tokens: is 100":               `{"token_ids": [1], "sampling_params": {"max_tokens": 100}}`,
		"sampling_params.max_tokens: is 0":                 `{"token_ids": [1], "sampling_params": {"max_tokens": 0}}`,
		"sampling_params.temperature: is -1":               `{"token_ids": [1], "sampling_params": {"temperature": -1}}`,
		"sampling_params.logprobs: is 21, want 0 to 20":    `{"token_ids": [1], "sampling_params": {"logprobs": 21}}`,
		"sampling_params.logprobs: is -1":                  `{"token_ids": [1], "sampling_params": {"logprobs": -1}}`,
		"sampling_params.prompt_logprobs: is 129":          `{"token_ids": [1], "sampling_params": {"prompt_logprobs": 129}}`,
		"sampling_params.prompt_logprobs: excludes stream": `{"token_ids": [1], "stream": true, "sampling_params": {"prompt_logprobs": 1}}`,
		"sampling_params.sampling_mask: is not supported":  `{"token_ids": [1], "sampling_params": {"sampling_mask": true}}`,
		"sampling_params.repetition_penalty: is not":       `{"token_ids": [1], "sampling_params": {"repetition_penalty": 1.1}}`,
		"sampling_params.bad_words: is not":                `{"token_ids": [1], "sampling_params": {"bad_words": ["x"]}}`,
		"sampling_params.stop_token_ids[1]: is 300":        `{"token_ids": [1], "sampling_params": {"stop_token_ids": [1, 300]}}`,
		"sampling_params.structured_outputs: has no":       `{"token_ids": [1], "sampling_params": {"structured_outputs": {}}}`,
		"sampling_params.logit_bias: \"x\" is not":         `{"token_ids": [1], "sampling_params": {"logit_bias": {"x": -100}}}`,
		"features: is not supported; remove it":            `{"token_ids": [1], "sampling_params": {}, "features": {}}`,
		"output_mode: is \"pixels\"":                       `{"token_ids": [1], "sampling_params": {}, "output_mode": "pixels"}`,
		"sampling_params.detokenize: is false":             `{"token_ids": [1], "sampling_params": {"detokenize": false}, "output_mode": "text"}`,
		"cache_salt: has 0 bytes":                          `{"token_ids": [1], "sampling_params": {}, "cache_salt": ""}`,
		"cache_salt: has 129 bytes":                        `{"token_ids": [1], "sampling_params": {}, "cache_salt": "` + strings.Repeat("a", 129) + `"}`,
		"priority: is 101":                                 `{"token_ids": [1], "sampling_params": {}, "priority": 101}`,
		"model: \"x\" is not served here":                  `{"token_ids": [1], "sampling_params": {}, "model": "x"}`,
		"request_id: has 257 bytes":                        `{"token_ids": [1], "sampling_params": {}, "request_id": "` + strings.Repeat("a", 257) + `"}`,
		"stream_options: is for stream: true":              `{"token_ids": [1], "sampling_params": {}, "stream_options": {}}`,
	} {
		m := &scripted{text: "ok"}
		_, err := Generate(t.Context(), m, "1", []byte(body), Stream{})
		var refused *Error
		if !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), want) || m.request != nil {
			t.Errorf("%s:\n%v, want %s", body, err, want)
		}
	}
}

func TestGenerateHasTheDefaultsOfVLLM(t *testing.T) {
	m := &scripted{text: "ok"}
	got, err := Generate(t.Context(), m, "1", []byte(`{"token_ids": [1, 2], "sampling_params": {"seed": null}, "features": null, "stream": null}`), Stream{})
	if err != nil {
		t.Fatal(err)
	}
	if r := m.request; r.N != 1 || r.MaxTokens != 98 || r.Sampling != (generation.Sampling{Temperature: 1, TopP: 1}) || r.Scores || r.Sample {
		t.Errorf("asked %+v", r)
	}
	for _, want := range []string{
		`"request_id":"generate-tokens-1","output_mode":"tokens","model":"m"`,
		`"choices":[{"index":0,"token_ids":[111,107,256],"logprobs":null,"finish_reason":"stop","stop_reason":null}]`,
		`"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}}`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestGeneratePassesWhatIsAskedFor(t *testing.T) {
	m := &scripted{text: "ok", top: []generation.Likely{{Token: 107, Logprob: -0.5}, {Token: 111, Logprob: -1}, {Token: 3, Logprob: -2}}, parts: []generation.Part{{From: 0, Version: "a"}, {From: 1, Version: "b", Adapter: "c"}}}
	got, err := Generate(t.Context(), m, "1", []byte(`{"request_id": "mine", "model": "careful", "token_ids": [1, 2], "return_token_ids": true, "cache_salt": "v3", "priority": -7,
		"sampling_params": {"n": 1, "seed": 5, "max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "min_p": 0.1, "logprobs": 2, "stop_token_ids": [256, 42], "stop": ["x"], "logit_bias": {"9": -100},
			"skip_special_tokens": false, "spaces_between_special_tokens": false, "include_stop_str_in_output": true, "detokenize": true, "repetition_penalty": 1.0, "min_tokens": 0, "bad_words": []}}`), Stream{})
	if err != nil {
		t.Fatal(err)
	}
	r := m.request
	if r.Adapter != 7 || r.Priority != 7 || r.Salt != "v3" || r.Top != 2 || !r.Sample || len(r.Stop.Tokens) != 1 || r.Stop.Tokens[0] != 42 || r.Stop.Texts[0] != "x" || len(r.Suppress) != 1 {
		t.Errorf("asked %+v", r)
	}
	for _, want := range []string{
		`"request_id":"generate-tokens-mine"`, `"prompt_token_ids":[1,2]`,
		`{"token_id":111,"token":"token_id:111","logprob":0,"rank":2,"top_logprobs":[{"token_id":111,"token":"token_id:111","logprob":0,"rank":2},{"token_id":107,"token":"token_id:107","logprob":-0.5,"rank":1}]}`,
		`{"token_id":256,"token":"token_id:256","logprob":-2,"rank":null,"top_logprobs":[{"token_id":256,"token":"token_id:256","logprob":-2,"rank":null},{"token_id":107,"token":"token_id:107","logprob":-0.5,"rank":1}]}`,
		`"weight_versions":[{"version":"a","start":0,"end":1},{"version":"b+c","start":1,"end":3}]`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestGenerateScoresThePromptAndHasMasks(t *testing.T) {
	m := &scripted{text: "ok", masks: [][]generation.Token{{111, 112}, nil, {256}}}
	got, err := Generate(t.Context(), m, "1", []byte(`{"token_ids": [97, 98], "return_sampling_mask": true, "sampling_params": {"prompt_logprobs": 1}}`), Stream{})
	if r := m.request; err != nil || !r.Masks || !r.Scores || r.ScoreFrom != 1 || r.Top != 1 {
		t.Fatalf("%v, asked %+v", err, m.request)
	}
	for _, want := range []string{`"sampling_mask":[[111,112],null,[256]]`,
		`"prompt_logprobs":[null,{"122":{"logprob":-0.5,"rank":1,"decoded_token":"z"},"98":{"logprob":-1.098,"rank":2,"decoded_token":"b"}}]`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestGenerateTellsWhyItStopped(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		finish generation.Finish
		params string
		want   string
	}{
		"the model's end": {"ok", "", ``, `"text":"ok","token_ids":[111,107,256],"logprobs":null,"finish_reason":"stop","stop_reason":null`},
		"a limit":         {"ok", generation.FinishLength, ``, `"finish_reason":"length","stop_reason":null`},
		"a pause":         {"ok", generation.FinishPaused, ``, `"text":"ok","token_ids":[111,107],"logprobs":null,"finish_reason":"abort","stop_reason":null`},
		"a text":          {"okEND", generation.FinishStop, `"stop": ["END"]`, `"text":"ok","token_ids":[111,107,69,78,68],"logprobs":null,"finish_reason":"stop","stop_reason":"END"`},
		"a text, with it": {"okEND", generation.FinishStop, `"stop": ["END"], "include_stop_str_in_output": true`, `"text":"okEND"`},
		"a token":         {"ok", generation.FinishStop, `"stop_token_ids": [107]`, `"finish_reason":"stop","stop_reason":107`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Generate(t.Context(), &scripted{text: c.text, finish: c.finish}, "1", []byte(`{"token_ids": [1], "output_mode": "text", "sampling_params": {`+c.params+`}}`), Stream{})
			if err != nil || !strings.Contains(string(got), c.want) {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
		})
	}
}

// generated returns the events of a stream.
func generated(t *testing.T, m Model, body string) (events []string) {
	t.Helper()
	_, err := Generate(t.Context(), m, "1", []byte(body), Stream{Send: func(event []byte) error {
		if len(event) > 0 {
			events = append(events, strings.TrimSuffix(strings.TrimPrefix(string(event), "data: "), "\n\n"))
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestGenerateStreamsEachTokenOnce(t *testing.T) {
	m := &scripted{text: "oké!STOP", pause: time.Millisecond, finish: generation.FinishStop}
	events := generated(t, m, `{"token_ids": [1, 2], "output_mode": "text", "stream": true, "stream_options": {"include_usage": true}, "return_token_ids": true, "sampling_params": {"logprobs": 0, "stop": ["STOP"]}}`)
	all := strings.Join(events, "\n")
	if n := strings.Count(all, `"prompt_token_ids":[1,2]`); n != 1 || !strings.Contains(events[0], `"prompt_token_ids"`) {
		t.Errorf("%d events have the prompt: %s", n, all)
	}
	for _, want := range []string{`"finish_reason":"stop","stop_reason":"STOP"`, `"choices":[],"usage":{"prompt_tokens":2`, `"usage":null`} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing: %s", want, all)
		}
	}
	if events[len(events)-1] != "[DONE]" {
		t.Errorf("ends with %s", events[len(events)-1])
	}
	var text strings.Builder
	ids, scores := 0, 0
	for _, e := range events {
		var a struct {
			Choices []struct {
				Text     string             `json:"text"`
				IDs      []generation.Token `json:"token_ids"`
				Logprobs *chatScores        `json:"logprobs"`
			} `json:"choices"`
		}
		if e == "[DONE]" {
			continue
		}
		if err := json.Unmarshal([]byte(e), &a); err != nil {
			t.Fatal(err)
		}
		for _, c := range a.Choices {
			text.WriteString(c.Text)
			ids += len(c.IDs)
			scores += len(c.Logprobs.Content)
		}
	}
	if text.String() != "oké!" || ids != len("oké!STOP") || scores != ids {
		t.Errorf("text %q, %d ids, %d scores: %s", text.String(), ids, scores, all)
	}
}

func TestChatHasIDsAndLogprobs(t *testing.T) {
	m := &scripted{text: "ok", top: []generation.Likely{{Token: 107, Logprob: -0.5}, {Token: 111, Logprob: -1}}}
	got, err := Chat(t.Context(), m, "1", []byte(`{`+hello+`, "logprobs": true, "top_logprobs": 1, "return_token_ids": true, "cache_salt": "s", "skip_special_tokens": false, "logit_bias": {"9": -100}}`), Stream{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"prompt_token_ids":[1,2,3]`, `"token_ids":[111,107,256]`,
		`{"token":"o","logprob":0,"bytes":[111],"top_logprobs":[{"token":"k","logprob":-0.5,"bytes":[107]}]}`,
		`{"token":"<end>","logprob":-2,"bytes":[60,101,110,100,62],"top_logprobs":[{"token":"k","logprob":-0.5,"bytes":[107]}]}],"refusal":null}`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if !m.request.Sample || m.request.Top != 1 || m.request.Salt != "s" || !slices.Equal(m.request.Suppress, []generation.Token{9}) {
		t.Errorf("asked %+v", m.request)
	}
	got, err = Chat(t.Context(), m, "1", []byte(`{`+hello+`, "logprobs": true, "return_tokens_as_token_ids": true}`), Stream{})
	if err != nil || !strings.Contains(string(got), `{"token":"token_id:111","logprob":0,"bytes":[111],"top_logprobs":[]}`) {
		t.Errorf("%s, %v", got, err)
	}
	for want, field := range map[string]string{
		"top_logprobs: needs logprobs: true": `"top_logprobs": 1`,
		"top_logprobs: is 21, want 0 to 20":  `"logprobs": true, "top_logprobs": 21`,
		"stop_token_ids[0]: is 257":          `"stop_token_ids": [257]`,
	} {
		if _, err := Chat(t.Context(), m, "1", []byte(`{`+hello+`, `+field+`}`), Stream{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// The tokens of a call are in the events, too, though the call itself is at their end.
func TestStreamedChatHasEachIDOnce(t *testing.T) {
	const call = `{"name": "f", "arguments": {}}`
	for text, body := range map[string]string{"Hello": `{` + hello, call: withTool} {
		m := &scripted{text: text, pause: time.Millisecond}
		events, err := streamed(t, m, body+`, "stream": true, "logprobs": true, "return_token_ids": true}`)
		if err != nil {
			t.Fatal(err)
		}
		var ids []generation.Token
		scores := 0
		for i, e := range events[:len(events)-1] {
			var a chatAnswer
			if err := json.Unmarshal([]byte(e), &a); err != nil {
				t.Fatal(err)
			}
			if (len(a.PromptIDs) == 3) != (i == 0) {
				t.Errorf("event %d has the prompt %v", i, a.PromptIDs)
			}
			for _, c := range a.Choices {
				ids = append(ids, c.IDs...)
				scores += len(c.Logprobs.Content)
			}
		}
		if got := m.Detokenize(ids); got != text+"<end>" || scores != len(ids) {
			t.Errorf("%q, %d scores: %v", got, scores, events)
		}
	}
}

func TestAbortEndsTheRequestsOfAnID(t *testing.T) {
	var running Running
	ctx := running.With(t.Context())
	one, two := &generation.Request{}, &generation.Request{}
	end := begin(ctx, one, "chatcmpl-1", "mine")
	defer begin(ctx, two, "generate-tokens-2", "")()
	if n := running.Abort([]string{"other", ""}); n != 0 || aborted(one) || aborted(two) {
		t.Errorf("%d were aborted by another id", n)
	}
	if n := running.Abort([]string{"mine"}); n != 1 || !aborted(one) || aborted(two) {
		t.Errorf("%d were aborted by the first id", n)
	}
	if n := running.Abort(nil); n != 2 || !aborted(two) {
		t.Errorf("%d were aborted, want both", n)
	}
	end()
	if n := running.Abort(nil); n != 1 {
		t.Errorf("%d were aborted after the end of one", n)
	}
	begin(context.Background(), one)() // elsewhere nothing can be aborted
}

func TestDetokenizeNamesABadToken(t *testing.T) {
	got, err := Detokenize(&scripted{}, []byte(`{"model": "m", "tokens": [111, 107]}`))
	if err != nil || string(got) != `{"prompt":"ok"}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := Detokenize(&scripted{}, []byte(`{"tokens": [1, 257]}`)); err == nil || !strings.HasPrefix(err.Error(), "tokens[1]: is 257") {
		t.Errorf("%v", err)
	}
}

func TestTokensOfMessagesAreThePromptOfTheChat(t *testing.T) {
	got, err := Tokenize(t.Context(), &scripted{}, []byte(`{"model": "m", `+hello+`, "add_generation_prompt": true}`))
	if err != nil || string(got) != `{"count":3,"max_model_len":100,"tokens":[1,2,3]}` {
		t.Errorf("%s, %v", got, err)
	}
	got, err = Tokenize(t.Context(), &scripted{}, []byte(`{"prompt": "a", "messages": null}`))
	if err != nil || string(got) != `{"count":1,"max_model_len":100,"tokens":[97]}` {
		t.Errorf("a text: %s, %v", got, err)
	}
	for want, field := range map[string]string{"add_generation_prompt: is not supported": `"add_generation_prompt": false`, "x: is not supported": `"x": 1`} {
		if _, err := Tokenize(t.Context(), &scripted{}, []byte(`{`+hello+`, `+field+`}`)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestTokensOfAMessageBeginThePrompt(t *testing.T) {
	s := generation.Served{Ends: []generation.Token{256}, Size: 257}
	rendered := []generation.Token{1, 256, 2, 256, 7, 7, 256, 3, 256, 5} // system, user, assistant, tool, the next answer
	for name, c := range map[string]struct {
		prompt, generated, want []generation.Token
	}{
		"a whole answer":     {[]generation.Token{1, 256, 2, 256}, []generation.Token{8, 256}, []generation.Token{1, 256, 2, 256, 8, 256, 3, 256, 5}},
		"a cut answer":       {[]generation.Token{1, 256, 2, 256}, []generation.Token{8, 9}, []generation.Token{1, 256, 2, 256, 8, 9, 256, 3, 256, 5}},
		"another system":     {[]generation.Token{9, 256, 2, 256}, []generation.Token{8, 256}, nil},
		"too many messages":  {[]generation.Token{1, 256, 256, 256, 256, 256}, []generation.Token{8, 256}, nil},
		"an unknown token":   {[]generation.Token{1, 256, 2, 300}, []generation.Token{8, 256}, nil},
		"half a message":     {[]generation.Token{1}, []generation.Token{8, 256}, nil},
		"the last token":     {[]generation.Token{1, 256, 2, 256}, []generation.Token{0, 256}, []generation.Token{1, 256, 2, 256, 0, 256, 3, 256, 5}},
		"a token below all":  {[]generation.Token{1, 256, 2, 256}, []generation.Token{-1, 256}, nil},
		"half of the tokens": {[]generation.Token{1, 256, 2, 256}, nil, nil},
	} {
		r := &chatRequest{Messages: []Message{{Role: "user"}, {Role: "assistant", spoken: spoken{PromptIDs: c.prompt, GeneratedIDs: c.generated}}}}
		got, err := r.splice(rendered, &s)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) || err != nil && !strings.HasPrefix(err.Error(), "messages[1].") {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
	r := &chatRequest{Messages: []Message{{Role: "user", spoken: spoken{PromptIDs: rendered, GeneratedIDs: rendered}}}}
	if _, err := r.splice(rendered, &s); err == nil || !strings.Contains(err.Error(), "role assistant") {
		t.Errorf("%v", err)
	}
	if got, err := (&chatRequest{}).splice(rendered, &s); err != nil || !slices.Equal(got, rendered) {
		t.Errorf("%v, %v", got, err)
	}
}
