package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"agentd/agent/format"
	"agentd/scheduler/generation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is a model with one token for each byte; 256 ends an answer.
type scripted struct {
	text     string // of every completion
	finish   generation.Finish
	places   int
	fails    error
	request  *generation.Request
	requests []generation.Request
	begun    int                  // tokens that its answers continue
	masks    [][]generation.Token // of an answer
	broken   error                // of each completion
	talk     *format.Chat
	pause    time.Duration       // after each token
	top      []generation.Likely // of each token
	parts    []generation.Part
}

func (m *scripted) Served() generation.Served {
	return generation.Served{Name: "m", Window: 100, Longest: 20, Ends: []generation.Token{256}, Size: 257, Effort: "none", Places: cmp.Or(m.places, 300), Sampling: generation.Sampling{Temperature: 0.6, TopP: 0.95, TopK: 20}}
}

func (*scripted) Tokenize(text string, _ bool) ([]generation.Token, error) {
	var ids []generation.Token
	for i := range len(text) {
		ids = append(ids, generation.Token(text[i]))
	}
	return ids, nil
}

func (m *scripted) Piece(id generation.Token) []byte {
	if id == 256 {
		return []byte("<end>")
	}
	return []byte{byte(id)}
}

func (*scripted) Detokenize(ids []generation.Token) string {
	var b strings.Builder
	for _, id := range ids {
		if id == 256 {
			b.WriteString("<end>")
		} else {
			b.WriteByte(byte(id))
		}
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

func (m *scripted) generate(r *generation.Request, admitted func()) (*generation.Result, error) {
	m.request = r
	if m.fails != nil && m.text == "" {
		return nil, m.fails
	}
	if admitted != nil {
		admitted()
	}
	ids, _ := m.Tokenize(m.text, false)
	result := &generation.Result{PromptTokens: len(r.Prompt), CachedTokens: 1}
	for k := max(1, r.ScoreFrom); r.ScoreFrom > 0 && k < len(r.Prompt); k++ { // of a token: its position and itself
		p := float32(-k) - float32(r.Prompt[k])/1000
		result.PromptScores = append(result.PromptScores, generation.Score{Logprob: p, Rank: 2, Top: []generation.Likely{{Token: 'z', Logprob: -0.5}}})
	}
	for i := range r.N {
		if r.Stream {
			for k := m.begun; k < len(ids); k++ {
				scores := make([]generation.Score, min(1, len(r.Seeds)))
				if r.Scores {
					scores = []generation.Score{{Logprob: float32(-k), Top: m.top}}
				}
				r.Watch(generation.Event{Kind: generation.Chosen, Completion: i, Tokens: ids[k : k+1], Scores: scores})
				time.Sleep(m.pause)
				time.Sleep(m.pause)
			}
		}
		done := generation.Completion{Tokens: ids, Parts: m.parts, Text: m.Detokenize(ids), Stop: "<end>", StopToken: 256, Finish: generation.FinishStop}
		for k := range len(ids) + 1 {
			if r.Scores {
				done.Scores = append(done.Scores, generation.Score{Logprob: float32(-k), Top: m.top})
			}
			if r.Masks {
				done.Scores[k].Mask = m.masks[k]
			}
		}
		if m.finish != "" {
			done.Stop, done.Finish = "", m.finish
		}
		done.Err = m.broken
		if m.finish == generation.FinishPaused {
			done.Err = generation.ErrPaused
		}
		result.Completions = append(result.Completions, done)
	}
	return result, m.fails
}

func (m *scripted) GenerateAll(_ context.Context, list []generation.Request, admitted func()) (results []*generation.Result, err error) {
	m.requests = list
	for i := range list {
		r, err := m.generate(&list[i], admitted)
		if err != nil {
			return nil, err
		}
		if list[i].MaxTokens == 0 {
			r.Completions = slices.Repeat([]generation.Completion{{Finish: generation.FinishLength}}, list[i].N)
		}
		results, admitted = append(results, r), nil
	}
	return results, nil
}

func (m *scripted) Chat(_ context.Context, c *format.Chat) (*generation.Request, format.Reader, error) {
	m.talk = c
	if m.fails != nil && m.text == "unusable" {
		return nil, nil, m.fails
	}
	return &generation.Request{Prompt: []generation.Token{1, 2, 3}}, scriptedReader{c}, nil
}

func (*scripted) Adapter(name string) (generation.AdapterID, bool) { return 7, name == "careful" }
func (*scripted) Adapters() []string                               { return []string{"careful"} }

const hello = `"messages": [{"role": "user", "content": "Hi"}]`

func TestRequestsThatAreRefusedNameTheField(t *testing.T) {
	for want, body := range map[string]string{
		"body: the body ends within":          `{`,
		"skip_special_tokens: is false":       `{"prompt": "a", "skip_special_tokens": false}`,
		"logprobs: is 21, want 0 to 20":       `{"prompt": "a", "logprobs": 21}`,
		"prompt_logprobs: is -1, want":        `{"prompt": "a", "prompt_logprobs": -1}`,
		"prompt_logprob_start: is 3; it must": `{"prompt": "abcdef", "prompt_logprob_start": 3, "logprobs": 1}`,
		"prompt[1]: has 100 tokens":           `{"prompt": ["a", "` + strings.Repeat("a", 100) + `"]}`,
		"prompt[1][0]: is 257":                `{"prompt": [[1], [257]]}`,
		"prompt: has 200 prompts of 2":        `{"prompt": ["a"` + strings.Repeat(`, "a"`, 199) + `], "n": 2}`,
		"prompt: has 257 prompts":             `{"prompt": ["a"` + strings.Repeat(`, "a"`, 256) + `]}`,
		"prompt: has one token, of which":     `{"prompt": "a", "echo": true, "max_tokens": 0}`,
		"continue: has 1 lists of":            `{"prompt": "a", "n": 2, "continue": [[1]]}`,
		"continue[0][1]: is 300":              `{"prompt": "a", "continue": [[1, 300]]}`,
		"suffix: is not supported; remove it": `{"prompt": "a", "suffix": "b"}`,
		"stream: excludes echo":               `{"prompt": "a", "stream": true, "echo": true}`,
		"prompt: is missing":                  `{}`,
		"prompt: must be a text, a list of":   `{"prompt": ["a", 1]}`,
		"prompt: has 0 tokens":                `{"prompt": ""}`,
		"prompt: has 100 tokens":              `{"prompt": "` + strings.Repeat("a", 100) + `"}`,
		"prompt[1]: is 257":                   `{"prompt": [1, 257]}`,
		"n: is 0":                             `{"prompt": "a", "n": 0}`,
		"n: is 257":                           `{"prompt": "a", "n": 257}`,
		"n: must be an integer, not a string": `{"prompt": "a", "n": "1"}`,
		"n: must be an integer, not 1.5":      `{"prompt": "a", "n": 1.5}`,
		"n: must be an integer of fewer digi": `{"prompt": "a", "n": 9223372036854775808}`,
		"stream_options: must be an object":   `{"prompt": "a", "stream_options": []}`,
		"N: is not supported; remove it":      `{"prompt": "a", "N": 1}`,
		"body: duplicate name":                `{"prompt": "a", "prompt": "b"}`,
		"body: not valid JSON":                "{\"prompt\": \"\xff\"}",
		"body: data follows":                  `{"prompt": "a"} 1`,
		"body: nested deeper than 64":         `{"prompt": ` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`,
		"body: must be an object":             `["prompt"]`,
		"max_tokens: is 0":                    `{"prompt": "a", "max_tokens": 0}`,
		"temperature: is -1":                  `{"prompt": "a", "temperature": -1}`,
		"top_p: is 0":                         `{"prompt": "a", "top_p": 0}`,
		"top_k: is -2":                        `{"prompt": "a", "top_k": -2}`,
		"min_p: is 2":                         `{"prompt": "a", "min_p": 2}`,
		"model: \"x\" is not served here; the models are m, careful": `{"prompt": "a", "model": "x"}`,
		"model: \"\\n\" is not served here":                          `{` + hello + `, "model": "\n"}`,
		"stop: has 33 texts":                                         `{"prompt": "a", "stop": ` + times(33, `"a"`) + `}`,
		"stop: has a text of 0 bytes":                                `{"prompt": "a", "stop": ""}`,
		"logit_bias.5: is 2; only -100":                              `{"prompt": "a", "logit_bias": {"5": 2}}`,
		"logit_bias: \"x\" is not a token":                           `{"prompt": "a", "logit_bias": {"x": -100}}`,
		"ignore_eos: excludes":                                       `{"prompt": "a", "ignore_eos": true, "structured_outputs": {"grammar": "root ::= \"a\""}}`,
		"structured_outputs: has no grammar":                         `{"prompt": "a", "structured_outputs": {}}`,
		"presence_penalty: is not supported":                         `{"prompt": "a", "presence_penalty": 1}`,
		"messages: has no text; add a message of a user":             `{"messages": []}`,
		"messages: has no text; add a message":                       `{"messages": [{"role": "system", "content": " "}]}`,
		"messages[0].role: is \"cat\"":                               `{"messages": [{"role": "cat"}]}`,
		"messages[0].content: part 0 is \"image_url\", and only text can be read; remove the part":         `{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`,
		"messages[0].content[1].image_url: is not supported, since only text can be read; remove the part": `{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}]}`,
		"messages[2].content: must be a string or a list of parts":                                         `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}, {"role": "user", "content": 5}]}`,
		"messages[0].content[1].file: is not supported, since only text can be read; remove the part":      `{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "file", "file": {}}]}]}`,
		"messages[0].content[0].input_audio: is not supported, since only text can be read":                `{"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}`,
		"tools[0].name: is not supported; put what describes a function under function":                    `{` + hello + `, "tools": [{"type": "function", "name": "a", "parameters": {}}]}`,
		"tools[1].description: is not supported; put":                                                      `{` + hello + `, "tools": [{"type": "function", "function": {"name": "a"}}, {"type": "function", "description": "a"}]}`,
		"tools[0].custom: is not supported; put what describes a function under function":                  `{` + hello + `, "tools": [{"type": "custom", "custom": {"name": "a"}}]}`,
		"tools[0].function.title: is not supported; remove it":                                             `{` + hello + `, "tools": [{"type": "function", "function": {"name": "a", "title": "b"}}]}`,
		"messages[0].audio: is not supported":                                                              `{"messages": [{"role": "user", "audio": {}}]}`,
		"tools[0].function.description: must be a string, not an array":                                    `{` + hello + `, "tools": [{"type": "function", "function": {"name": "a", "description": []}}]}`,
		"tool_choice: must be auto":                                                       `{` + hello + `, "tool_choice": {"type": "function"}}`,
		"tool_choice: is \"any\"":                                                         `{` + hello + `, "tool_choice": "any"}`,
		"tool_choice: must be a string, not a number":                                     `{` + hello + `, "tool_choice": 1}`,
		"messages[1].tool_call_id: \"b\" is the id of no call":                            `{"messages": [{"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "b", "content": "c"}]}`,
		"modalities: is [\"text\" \"audio\"]; only text is possible":                      `{` + hello + `, "modalities": ["text", "audio"]}`,
		"reasoning_effort: is \"low\", and all requests have \"none\" here":               `{` + hello + `, "reasoning_effort": "low"}`,
		"chat_template_kwargs.enable_thinking: is true, and all requests have false here": `{` + hello + `, "chat_template_kwargs": {"enable_thinking": true}}`,
		"chat_template_kwargs.date: is not supported":                                     `{` + hello + `, "chat_template_kwargs": {"date": "today"}}`,
		"tool_choice: asks for a call":                                                    `{` + hello + `, "tool_choice": "required"}`,
		"tool_choice: names \"b\", which is not a tool":                                   `{` + hello + `, "tools": [{"type": "function", "function": {"name": "a"}}], "tool_choice": {"type": "function", "function": {"name": "b"}}}`,
		"response_format.json_schema: is missing":                                         `{` + hello + `, "response_format": {"type": "json_schema"}}`,
		"response_format.json_schema.schema: is missing":                                  `{` + hello + `, "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": null}}}`,
		"response_format.json_schema: needs type json_schema, not \"json_object\"":        `{` + hello + `, "response_format": {"type": "json_object", "json_schema": {"name": "a", "schema": {}}}}`,
		"structured_outputs: has several":                                                 `{` + hello + `, "structured_outputs": {"json": {}, "choice": ["a"]}}`,
		"structured_outputs: has no json":                                                 `{` + hello + `, "structured_outputs": {"choice": []}}`,
		"structured_outputs: excludes response_format and tools":                          `{` + hello + `, "structured_outputs": {"json": {}}, "response_format": {"type": "text"}}`,
		"response_format.type: is \"x\"":                                                  `{` + hello + `, "response_format": {"type": "x"}}`,
		"messages[0].tool_calls: is for the role assistant":                               `{"messages": [{"role": "user", "content": "a", "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]}]}`,
		"messages[0].tool_call_id: is for the role tool":                                  `{"messages": [{"role": "user", "content": "a", "tool_call_id": "b"}]}`,
		"messages[2].tool_call_id: is empty":                                              `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "", "content": "b"}]}`,
		"messages[1].tool_calls[0].function.name: is missing":                             `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}, {"role": "tool", "content": "b"}]}`,
		"max_completion_tokens: is 0":                                                     `{` + hello + `, "max_completion_tokens": 0}`,
		"stream_options: is for stream: true":                                             `{` + hello + `, "stream_options": {}}`,
	} {
		m := &scripted{text: "x"}
		var err error
		if strings.Contains(body, `"messages"`) {
			_, err = Chat(t.Context(), m, "1", []byte(body), Stream{})
		} else {
			_, err = Complete(t.Context(), m, "1", []byte(body), Stream{})
		}
		var refused *Error
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", body, err, want)
		}
		if m.request != nil {
			t.Errorf("%s: the model was asked", body)
		}
	}
}

func TestMoreChoicesThanTheQueueHasAreRefused(t *testing.T) {
	for body, want := range map[string]string{
		`{"prompt": "a", "n": 9}`:             "n: is 9, want 1 to 8 (queue_limit: 8)",
		`{"prompt": ["a", "b", "c"], "n": 3}`: "prompt: has 3 prompts of 3 choices each; at most 8",
		`{"prompt": ["a", "b"], "n": 4}`:      "<nil>",
	} {
		if _, err := Complete(t.Context(), &scripted{text: "x", places: 8}, "1", []byte(body), Stream{}); !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

func TestCompletionReachesTheEngine(t *testing.T) {
	m := &scripted{text: "ok"}
	got, err := Complete(t.Context(), m, "1", []byte(`{"prompt": [1, 2], "n": 2, "seed": 5, "max_tokens": 7, "temperature": 1, "top_p": 1, "top_k": -1,
		"min_p": 0, "stop_token_ids": [256, 42], "structured_outputs": {"grammar": "root ::= \"ok\""}, "logit_bias": {"9": -100}, "return_token_ids": true}`), Stream{})
	if err != nil {
		t.Fatal(err)
	}
	r := m.request
	if fmt.Sprintln(r.Prompt, r.N, r.Seeds, r.MaxTokens, r.Sampling, r.Suppress, r.Stop.Tokens, r.Grammar) != "[1 2] 2 [5 6] 7 {1 1 0 -1} [9] [42] root ::= \"ok\"\n" {
		t.Errorf("asked %+v", r)
	}
	want := `"choices":[{"index":0,"text":"ok","finish_reason":"stop","logprobs":null,"token_ids":[111,107,256],"prompt_token_ids":[1,2]},{"index":1,"text":"ok","finish_reason":"stop","logprobs":null,"token_ids":[111,107,256]}],` +
		`"usage":{"prompt_tokens":2,"completion_tokens":6,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":1}}}`
	if !strings.HasSuffix(string(got), want) {
		t.Errorf("got %s", got)
	}
}

// TestAdapterIsAModelOfItsOwn in requests, answers and the list.
func TestAdapterIsAModelOfItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		adapter generation.AdapterID
		model   string
	}{
		"the model":            {`{"prompt": "a", "model": "m"}`, 0, "m"},
		"no name":              {`{"prompt": "a"}`, 0, "m"},
		"an adapter":           {`{"prompt": "a", "model": "careful"}`, 7, "careful"},
		"an adapter in a chat": {`{` + hello + `, "model": "careful"}`, 7, "careful"},
		"the model in a chat":  {`{` + hello + `, "model": "m"}`, 0, "m"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &scripted{text: "ok"}
			answer := Complete
			if strings.Contains(c.body, "messages") {
				answer = Chat
			}
			got, err := answer(t.Context(), m, "1", []byte(c.body), Stream{})
			if err != nil {
				t.Fatal(err)
			}
			if m.request.Adapter != c.adapter || !strings.Contains(string(got), `"model":"`+c.model+`"`) {
				t.Errorf("adapter %d answers %s", m.request.Adapter, got)
			}
		})
	}
	list, err := Models(&scripted{})
	const entry = `"object":"model","created":0,"owned_by":"agentd","root":"m","parent":`
	if want := `{"data":[{"id":"m",` + entry + `null,"max_model_len":100},{"id":"careful",` + entry + `"m","max_model_len":100}],"object":"list"}`; err != nil || string(list) != want {
		t.Errorf("the list is %s, %v", list, err)
	}
	if _, err := Tokenize(t.Context(), &scripted{}, []byte(`{"prompt": "a", "model": "careful"}`)); err != nil {
		t.Error(err)
	}
	if _, err := Tokenize(t.Context(), &scripted{}, []byte(`{"prompt": "a", "model": "x"}`)); err == nil || !strings.Contains(err.Error(), "the models are m, careful") {
		t.Errorf("tokens of another model: %v", err)
	}
}

func TestCompletionTellsTheLogprobsOfItsTokens(t *testing.T) {
	m := &scripted{text: "ok"}
	got, err := Complete(t.Context(), m, "1", []byte(`{"prompt": [1, 2], "logprobs": 0}`), Stream{})
	if err != nil {
		t.Fatal(err)
	}
	want := `"logprobs":{"tokens":["o","k","<end>"],"token_logprobs":[0,-1,-2],"text_offset":[0,1,2],"top_logprobs":[{"o":0},{"k":-1},{"<end>":-2}]}}`
	if !strings.Contains(string(got), want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// streamed returns the events of a stream.
func streamed(t *testing.T, m Model, body string) (events []string, err error) {
	t.Helper()
	_, err = Chat(t.Context(), m, "1", []byte(body), Stream{Send: func(event []byte) error {
		if len(event) == 0 { // the headers
			return nil
		}
		text := strings.TrimSuffix(strings.TrimPrefix(string(event), "data: "), "\n\n")
		if text == string(event) {
			t.Errorf("no event: %q", event)
		}
		events = append(events, text)
		return nil
	}})
	return events, err
}

// joined joins the content of events.
func joined(t *testing.T, events []string) (text, reason string) {
	t.Helper()
	for _, event := range events {
		if event == "[DONE]" {
			continue
		}
		var a chatAnswer
		if err := json.Unmarshal([]byte(event), &a); err != nil {
			t.Fatalf("%v in %s", err, event)
		}
		for _, c := range a.Choices {
			if c.Delta.Content != nil {
				text += *c.Delta.Content
			}
			if c.FinishReason != nil {
				reason += *c.FinishReason
			}
		}
	}
	return text, reason
}

func TestStreamsHaveTheTextOfWholeAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		m            scripted
		more         string
		want, reason string
	}{
		"plain text":                         {scripted{text: "Hello you"}, "", "Hello you", "stop"},
		"letters of several bytes":           {scripted{text: "é你🙂"}, "", "é你🙂", "stop"},
		"thoughts are dropped":               {scripted{text: "<think>hm</think>yes"}, "", "yes", "stop"},
		"thoughts that do not end":           {scripted{text: "<think>hm", finish: generation.FinishLength}, "", "", "length"},
		"the limit of tokens":                {scripted{text: "cut o", finish: generation.FinishLength}, "", "cut o", "length"},
		"a stop text":                        {scripted{text: "one STOP two"}, `, "stop": "STOP"`, "one ", "stop"},
		"a stop text in thoughts":            {scripted{text: "<think>STOP</think>yes"}, `, "stop": "STOP"`, "yes", "stop"},
		"a stop text and a call that is cut": {scripted{text: `a STOP {"name": "g", "ar`}, `, "stop": "STOP", "tools": [{"type": "function", "function": {"name": "f"}}]`, "a ", "stop"},
		"nearly a stop text":                 {scripted{text: "one STO two ST"}, `, "stop": ["STOP"]`, "one STO two ST", "stop"},
		"an empty answer":                    {scripted{text: ""}, "", "", "stop"},
		"a reply beside tools":               {scripted{text: `no`}, `, "tools": [{"type": "function", "function": {"name": "f"}}]`, "no", "stop"},
		"a call":                             {scripted{text: `{"name": "f", "arguments": {}}`}, `, "tools": [{"type": "function", "function": {"name": "f"}}]`, "", "tool_calls"},
		"a call that was cut off":            {scripted{text: `{"name": "f", "argu`, finish: generation.FinishLength}, `, "tools": [{"type": "function", "function": {"name": "f"}}]`, "", "length"},
	} {
		check := func(t *testing.T) {
			body := `{` + hello + c.more + `, "stream": true}`
			events, err := streamed(t, &c.m, body)
			if err != nil {
				t.Fatal(err)
			}
			text, reason := joined(t, events)
			if text != c.want || reason != c.reason || events[len(events)-1] != "[DONE]" {
				t.Errorf("got %q %s in %q", text, reason, events)
			}
			whole, err := Chat(t.Context(), &c.m, "1", []byte(strings.Replace(body, `"stream": true`, `"stream": false`, 1)), Stream{})
			var a chatAnswer
			if err != nil || json.Unmarshal(whole, &a) != nil {
				t.Fatalf("%v in %s", err, whole)
			}
			if got := a.Choices[0].Message.Content; got != nil && *got != c.want || *a.Choices[0].FinishReason != c.reason {
				t.Errorf("whole: %s", whole)
			}
		}
		t.Run(name+" at once", check)
		c.m.pause = time.Second
		t.Run(name+" token by token", func(t *testing.T) { synctest.Test(t, check) })
	}
}

func TestErrorsOfStreams(t *testing.T) {
	failed := errors.New("the model failed")
	if events, err := streamed(t, &scripted{fails: failed}, `{`+hello+`, "stream": true}`); !errors.Is(err, failed) || len(events) != 0 {
		t.Errorf("before the first event: %v, %q", err, events)
	}
	err := errors.New("the client left")
	_, got := Chat(t.Context(), &scripted{text: "Hello"}, "1", []byte(`{`+hello+`, "stream": true}`), Stream{Send: func([]byte) error { return err }})
	if !errors.Is(got, err) {
		t.Errorf("a client that left: %v", got)
	}
}

func FuzzBodies(f *testing.F) {
	f.Add([]byte(`{"prompt": [1, 2], "n": 2}`))
	f.Add([]byte(`{` + hello + `, "tools": [{"type": "function", "function": {"name": "a"}}], "stream": true}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m := &scripted{text: "ok"}
		_, _ = Complete(t.Context(), m, "1", body, Stream{})
		_, _ = Chat(t.Context(), m, "1", body, Stream{Send: func([]byte) error { return nil }})
		_, _ = Tokenize(t.Context(), m, body)
	})
}

// TestMaxTokensBeyondTheContextAreRefused: the scripted model has a context of 100 tokens.
func TestMaxTokensBeyondTheContextAreRefused(t *testing.T) {
	for body, want := range map[string]string{
		`{"prompt": "hello", "max_tokens": 95}`: "",
		`{"prompt": "hello", "max_tokens": 96}`: "max_tokens: is 96, and the prompt has 5 tokens; the model's context of 100 leaves 95",
		`{"prompt": "hello"}`:                   "",
	} {
		if _, err := Complete(t.Context(), &scripted{text: "ok"}, "1", []byte(body), Stream{}); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	for _, field := range []string{"max_tokens", "max_completion_tokens"} {
		_, err := Chat(t.Context(), &scripted{text: "ok"}, "1", []byte(`{`+hello+`, "`+field+`": 100}`), Stream{})
		if err == nil || !strings.HasPrefix(err.Error(), field+": is 100, and the prompt has ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestOffsetsAreBytesOfTheText, also where a token is a part of a character.
func TestOffsetsAreBytesOfTheText(t *testing.T) {
	tokens := []generation.Token{}
	for _, b := range []byte("aé😀") {
		tokens = append(tokens, generation.Token(b))
	}
	s := &completionScores{}
	s.add(&scripted{}, append(tokens, 256), nil, 0)
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(s.TextOffset, want) {
		t.Errorf("offsets %v, want %v", s.TextOffset, want)
	}
}

func TestAnswersAreCreatedWhenTheyAreMade(t *testing.T) {
	before := time.Now().Unix()
	text, err := Complete(t.Context(), &scripted{text: "ok"}, "1", []byte(`{"prompt": "hello"}`), Stream{})
	chat, chatErr := Chat(t.Context(), &scripted{text: "ok"}, "1", []byte(`{`+hello+`}`), Stream{})
	for _, body := range [][]byte{text, chat} {
		var a struct {
			Created int64 `json:"created"`
		}
		if err := errors.Join(err, chatErr, json.Unmarshal(body, &a)); err != nil || a.Created < before || a.Created > time.Now().Unix() {
			t.Errorf("created %d, %v", a.Created, err)
		}
	}
}

// TestStopTextsReachTheEngine: a chat looks for them in what its client sees.
func TestStopTextsReachTheEngine(t *testing.T) {
	m := &scripted{text: "ok"}
	if _, err := Complete(t.Context(), m, "1", []byte(`{"prompt": "a", "stop": ["b", "c"]}`), Stream{}); err != nil {
		t.Fatal(err)
	}
	if s := m.request.Stop; s == nil || len(s.Texts) != 2 || s.Visible != nil || !s.Ends("xcx") {
		t.Errorf("completions: %+v", s)
	}
	if _, err := Chat(t.Context(), m, "1", []byte(`{`+hello+`, "stop": "b"}`), Stream{}); err != nil {
		t.Fatal(err)
	}
	if s := m.request.Stop; s == nil || s.Ends("<think>b") || !s.Ends("<think>b</think>abc") {
		t.Errorf("chat: %+v", s)
	}
	if _, err := Chat(t.Context(), m, "1", []byte(`{`+hello+`}`), Stream{}); err != nil || m.request.Stop != nil {
		t.Errorf("a chat without: %+v, %v", m.request.Stop, err)
	}
}

func TestTextEndsBeforeTheFirstStopText(t *testing.T) {
	for _, tc := range []struct {
		stops        list
		want, reason string
	}{
		{list{"d", "b"}, "a", "stop"},
		{list{"b", "d"}, "a", "stop"},
		{list{"a"}, "", "stop"},
		{list{"x", "d"}, "abc", "stop"},
		{list{"x"}, "abcd", "length"},
		{nil, "abcd", "length"},
	} {
		if text, reason, _ := tc.stops.cut("abcd", "length"); text != tc.want || reason != tc.reason {
			t.Errorf("%q: %q, %s", tc.stops, text, reason)
		}
	}
}
