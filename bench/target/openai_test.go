package target

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/protocol"
)

func openAI(t *testing.T, mode Mode, h http.Handler) *OpenAI {
	t.Helper()
	return closing[*OpenAI](t)(NewOpenAI(serve(t, h), "m", "key", mode))
}

const twoChoices = `{"id":"c","object":"chat.completion","choices":[
 {"index":1,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"go","arguments":"{\"to\":\"x\"}"}}]},"finish_reason":"tool_calls"},
 {"index":0,"message":{"role":"assistant","content":"Hi","reasoning_content":"Hm. "},"finish_reason":"length"}],
 "usage":{"prompt_tokens":50,"completion_tokens":14,"total_tokens":64,"prompt_tokens_details":{"cached_tokens":20}}}`

// TestAnInputIsChatMessages states how an input becomes messages and functions:
// as agentd gives them to a chat template.
func TestAnInputIsChatMessages(t *testing.T) {
	var body map[string]any
	a := openAI(t, ModeN, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method+r.URL.Path != "POST/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer key" {
			t.Errorf("%s %s, %v", r.Method, r.URL, r.Header)
		}
		body = bodyOf(t, r)
		reply(200, twoChoices)(w, r)
	}))
	got, err := a.Ask(t.Context(), turn(2), Options{MaxTokens: 30, Seed: 4})
	want := Answer{PromptTokens: 50, ComputedTokens: 30, OutputTokens: 14, Queue: -1, First: -1,
		Candidates: []Candidate{{"Hm. Hi", -1, "truncated"}, {`go{"to":"x"}`, -1, ""}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
	messages, _ := body["messages"].([]any)
	if len(messages) != 4 {
		t.Fatalf("%d messages: %v", len(messages), messages)
	}
	system, _ := messages[0].(map[string]any)
	if text, _ := system["content"].(string); system["role"] != "system" || !strings.Contains(text, "- Be kind.") {
		t.Errorf("the first message is %v", system)
	}
	wantRest := []any{
		map[string]any{"role": "user", "content": "Go home."},
		map[string]any{"role": "assistant", "content": "", "tool_calls": []any{map[string]any{
			"id": "call_0", "type": "function", "function": map[string]any{"name": "go", "arguments": `{"to":"door","target_robot":"rover"}`},
		}}},
		map[string]any{"role": "tool", "tool_call_id": "call_0", "content": "At the door.\n\nTask attributes: {\"known_robots\": [\"rover\"]}"},
	}
	if diff := cmp.Diff(wantRest, messages[1:]); diff != "" {
		t.Error(diff)
	}
	tools, _ := body["tools"].([]any)
	function, _ := tools[0].(map[string]any)["function"].(map[string]any)
	parameters, _ := function["parameters"].(map[string]any)
	if diff := cmp.Diff([]any{"to", "target_robot"}, parameters["required"]); len(tools) != 1 || function["name"] != "go" || diff != "" {
		t.Errorf("tools %v: %s", tools, diff)
	}
	delete(body, "messages")
	delete(body, "tools")
	wantBody := map[string]any{"model": "m", "n": 2.0, "max_tokens": 30.0, "temperature": 1.0, "top_p": 1.0, "seed": 4.0, "top_k": -1.0, "min_p": 0.0}
	if diff := cmp.Diff(wantBody, body); diff != "" {
		t.Error(diff)
	}
}

func TestChatRequests(t *testing.T) {
	a := openAI(t, ModeN, http.NotFoundHandler())
	for _, test := range []struct {
		name       string
		o          Options
		candidates int
		has, lacks []string
	}{
		{"greedy, one candidate", Options{MaxTokens: 9, Greedy: true}, 1, []string{`"temperature":0,`, `"max_tokens":9,`}, []string{`"n":`, "stream", "ignore_eos", "min_tokens"}},
		{"fixed tokens", Options{MaxTokens: 9, FixedTokens: 5}, 2, []string{`"max_tokens":5,`, `"min_tokens":5`, `"ignore_eos":true`, `"n":2`}, nil},
		{"a stream tells its usage", Options{MaxTokens: 9, Stream: true}, 1, []string{`"stream":true`, `"stream_options":{"include_usage":true}`}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			body, _, err := a.request(turn(test.candidates), test.o, 0, test.candidates)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range test.has {
				if !strings.Contains(string(body), s) {
					t.Errorf("%s lacks %s", body, s)
				}
			}
			for _, s := range test.lacks {
				if strings.Contains(string(body), s) {
					t.Errorf("%s has %s", body, s)
				}
			}
		})
	}
	t.Run("one that can't be asked names its turn", func(t *testing.T) {
		for says, input := range map[string]string{
			"agent 3, turn 2: body.inputs[0].x":          `{"id":1,"instruction":{"type":"user","content":"a"},"x":1}`,
			"agent 3, turn 2: body.history: it must be":  `{"id":1,"instruction":{"type":"user","content":"a"},"memory":{"history":1}}`,
			"agent 3, turn 2: tools[0]: it needs a name": `{"id":1,"instruction":{"type":"user","content":"a"},"tools":[{}]}`,
		} {
			turn := turn(1)
			turn.Input = protocol.Raw(input)
			var f *Failure
			if _, err := a.Ask(t.Context(), turn, Options{MaxTokens: 1}); err == nil || errors.As(err, &f) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
		if _, err := a.Ask(t.Context(), turn(1), Options{}); err == nil || !strings.Contains(err.Error(), "limit") {
			t.Errorf("without a limit: %v", err)
		}
	})
	t.Run("an input without tools has no functions", func(t *testing.T) {
		turn := turn(1)
		turn.Input = protocol.Raw(`{"id":1,"instruction":{"type":"user","content":"a"}}`)
		body, _, err := a.request(turn, Options{MaxTokens: 1}, 0, 1)
		if err != nil || strings.Contains(string(body), `"tools"`) {
			t.Errorf("%s, %v", body, err)
		}
	})
}

func TestSeparateChatsHaveSeedsOfTheirOwn(t *testing.T) {
	a := openAI(t, ModeSeparate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := bodyOf(t, r)
		if _, has := body["n"]; has {
			t.Error("n is there")
		}
		text := map[float64]string{7: "seven", 8: "eight"}[body["seed"].(float64)]
		reply(200, `{"choices":[{"index":0,"message":{"content":"`+text+`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":4}}`)(w, r)
	}))
	got, err := a.Ask(t.Context(), turn(2), Options{FixedTokens: 4, Seed: 7})
	want := Answer{PromptTokens: 5, ComputedTokens: -1, OutputTokens: 8, Queue: -1, First: -1, Candidates: []Candidate{{"seven", 4, ""}, {"eight", 4, ""}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestChatAnswers(t *testing.T) {
	const choice = `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]`
	for _, test := range []struct {
		name, body string
		n          int
		o          Options
		want       *Answer
		says       string
	}{
		{name: "without usage nothing is counted", body: choice + `}`, n: 1, o: Options{MaxTokens: 9},
			want: &Answer{PromptTokens: -1, ComputedTokens: -1, OutputTokens: -1, Queue: -1, First: -1, Candidates: []Candidate{{"a", -1, ""}}}},
		{name: "llama-server's usage is of the first choice", n: 2, o: Options{FixedTokens: 4},
			body: strings.Replace(twoChoices, `"usage"`, `"timings":{"prompt_n":1},"usage"`, 1),
			want: &Answer{PromptTokens: 50, ComputedTokens: 30, OutputTokens: -1, Queue: -1, First: -1, Candidates: []Candidate{{"Hm. Hi", -1, ""}, {`go{"to":"x"}`, -1, ""}}}},
		{name: "fixed tokens of all", body: twoChoices, n: 2, o: Options{FixedTokens: 7}, want: &Answer{PromptTokens: 50, ComputedTokens: 30, OutputTokens: 14, Queue: -1, First: -1,
			Candidates: []Candidate{{"Hm. Hi", -1, ""}, {`go{"to":"x"}`, -1, ""}}}},
		{name: "not so many", body: twoChoices, n: 2, o: Options{FixedTokens: 8}, says: "2 candidates have 14 tokens where every one shall have 8"},
		{name: "one that is not so long", body: choice + `,"usage":{"prompt_tokens":1,"completion_tokens":3}}`, n: 1, o: Options{FixedTokens: 8}, says: "has 3 tokens"},
		{name: "n that is not known", body: choice + `}`, n: 2, o: Options{MaxTokens: 9}, says: "choice 1 is missing"},
		{name: "another index", body: strings.Replace(choice, "0", "5", 1) + `}`, n: 1, o: Options{MaxTokens: 9}, says: "choice 5"},
		{name: "negative counts", body: choice + `,"usage":{"prompt_tokens":-1}}`, n: 1, o: Options{MaxTokens: 9}, says: "negative"},
		{name: "no JSON", body: "<html>", n: 1, o: Options{MaxTokens: 9}, says: "can't be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := openAI(t, ModeN, reply(200, test.body)).Ask(t.Context(), turn(test.n), test.o)
			if test.want == nil {
				wantFailure(t, err, Contract, test.says)
				return
			}
			if diff := cmp.Diff(*test.want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
	t.Run("errors of these servers", func(t *testing.T) {
		for says, body := range map[string]string{"no such model": `{"error":{"message":"no such model"}}`, "not found": `{"error":"not found"}`, "plain": "plain"} {
			_, err := openAI(t, ModeN, reply(404, body)).Ask(t.Context(), turn(1), Options{MaxTokens: 1})
			wantFailure(t, err, Status, says)
		}
	})
}

func TestChatStreams(t *testing.T) {
	start := time.Unix(50, 0)
	c := newChoices(2)
	for i, data := range []string{
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}`,
		`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`,
		`{"choices":[{"index":1,"delta":{"reasoning":"x"}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"go","arguments":""}}]}}]}`,
		`{"choices":[{"index":1,"delta":{"content":"y"},"finish_reason":"stop"}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}`,
	} {
		if err := c.event([]byte(data), start.Add(time.Duration(i)*10*msec)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.event([]byte("[DONE]"), start); err != nil {
		t.Errorf("the end gives %v", err)
	}
	got, err := c.answer(Options{}, start)
	want := Answer{PromptTokens: 9, ComputedTokens: -1, OutputTokens: 4, Queue: -1, First: 10 * msec, Gaps: []time.Duration{20 * msec, 20 * msec},
		Candidates: []Candidate{{"ago", -1, "truncated"}, {"xy", -1, ""}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, test := range []struct{ name, stream, kind, says string }{
		{"whole", `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n", "", ""},
		{"cut", `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n", Transport, "ended before choice 0"},
		{"broken", `data: {"error":{"message":"out of memory"}}` + "\n\n", Status, "out of memory"},
		{"garbled", "data: {\n\n", Contract, "can't be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := openAI(t, ModeN, reply(200, test.stream)).Ask(t.Context(), turn(1), Options{MaxTokens: 9, Stream: true})
			if test.kind != "" {
				wantFailure(t, err, test.kind, test.says)
			} else if err != nil || got.Candidates[0].Text != "a" || got.First < 0 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestAChatServersFacts(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", reply(200, `{"object":"list","data":[{"id":"m","owned_by":"vllm"},{"id":"n"}]}`))
	a := openAI(t, ModeN, mux)
	facts, err := a.Describe(t.Context())
	if diff := cmp.Diff(map[string]string{"server": "openai", "mode": "n", "model": "m", "owned_by": "vllm"}, facts); err != nil || diff != "" {
		t.Error(err, diff)
	}
	a.model = "x"
	if _, err := a.Describe(t.Context()); err == nil || !strings.Contains(err.Error(), `no model "x"; it has ["m" "n"]`) {
		t.Errorf("got %v", err)
	}
	if _, err := a.Counters(t.Context()); !errors.Is(err, ErrNoCounters) {
		t.Errorf("counters: %v", err)
	}
	for _, bad := range [][3]string{{"x", "m", "n"}, {"http://h", "", "n"}, {"http://h", "m", ""}} {
		if _, err := NewOpenAI(bad[0], bad[1], "", Mode(bad[2])); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if a, err := NewOpenAI("http://h/openai/v1/", "m", "", ModeN); err != nil || a.base != "http://h/openai/v1" {
		t.Errorf("got %+v, %v", a, err)
	}
}

func FuzzChatAnswer(f *testing.F) {
	f.Add([]byte(twoChoices))
	f.Add([]byte(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":null}`))
	f.Add([]byte("[DONE]"))
	f.Fuzz(func(t *testing.T, body []byte) {
		whole := newChoices(2)
		if whole.read(body) == nil {
			if a, err := whole.answer(Options{}, time.Time{}); err == nil && (len(a.Candidates) != 2 || a.OutputTokens < -1 || a.ComputedTokens < -1) {
				t.Errorf("%s gives %+v", body, a)
			}
		}
		stream := newChoices(2)
		_ = stream.event(body, time.Unix(1, 0))
		_ = stream.event(body, time.Unix(2, 0))
		_, _ = stream.answer(Options{}, time.Unix(0, 0))
	})
}

func FuzzErrorText(f *testing.F) {
	for _, s := range []string{`{"error":{"message":"m"}}`, `{"error":"m"}`, `{"error":null}`, `{"detail":"d"}`, "<html>"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if text := errorText(body); len(text) > 4*len(body)+512 {
			t.Errorf("%d bytes of %d", len(text), len(body))
		}
	})
}
