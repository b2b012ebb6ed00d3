package openai

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// scriptedReader reads thoughts, then a text, a call {"name", "arguments"} of the function f, or a text, a line end and
// a call.
type scriptedReader struct{ talk *format.Chat }

func (r scriptedReader) SoFar(text string) string {
	if strings.HasPrefix("<think>", text) {
		return ""
	}
	if rest, ok := strings.CutPrefix(text, "<think>"); ok {
		if _, text, ok = strings.Cut(rest, "</think>"); !ok {
			return ""
		}
	}
	if r.talk.Functions.Raw == nil {
		return text
	}
	if strings.HasPrefix(text, "{") {
		return ""
	}
	before, _, _ := strings.Cut(text, "\n{")
	return strings.TrimRight(before, "\n")
}

func (r scriptedReader) Read(text string) (string, []tools.Call, error) {
	said := r.SoFar(text)
	text = strings.TrimLeft(strings.TrimPrefix(text, said), "\n")
	if r.talk.Functions.Raw == nil || !strings.HasPrefix(text, "{") {
		return said, nil, nil
	}
	var call struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if err := json.Unmarshal([]byte(text), &call); err != nil || call.Name != "f" {
		return "", nil, errors.New("the answer is no call of f")
	}
	return said, []tools.Call{{Name: call.Name, Arguments: call.Arguments}}, nil
}

// Cut finds the call before a comma.
func (r scriptedReader) Cut(text string) (string, []tools.Call) {
	whole, _, _ := strings.Cut(text, "},")
	if _, calls, err := r.Read(whole + "}"); err == nil && len(calls) > 0 {
		return "", calls
	}
	return r.SoFar(text), nil
}

// withTool is a request that offers the function f.
const withTool = `{` + hello + `, "tools": [{"type": "function", "function": {"name": "f"}}]`

func TestCallsHaveTheirResultsInOrder(t *testing.T) {
	m := &scripted{text: "ok"}
	_, err := Chat(t.Context(), m, "1", []byte(`{"messages": [{"role": "system", "content": "A"}, {"role": "developer", "content": [{"type": "text", "text": "B"}]},
		{"role": "user", "content": "c"}, {"role": "user", "content": "d"},
		{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}},
			{"id": "2", "type": "function", "function": {"name": "g", "arguments": ""}}, {"id": "3", "type": "function", "function": {"name": "h", "arguments": "3*7"}}, {"id": "4", "type": "function", "function": {"name": "k", "arguments": "3"}}]},
		{"role": "tool", "tool_call_id": "2", "content": "e"}, {"role": "tool", "tool_call_id": "1", "content": "f"},
		{"role": "assistant", "content": "i"}, {"role": "assistant", "refusal": "j"}, {"role": "system", "content": "k"}, {"role": "assistant", "content": "l"}]}`), Stream{})
	if err != nil {
		t.Fatal(err)
	}
	want := []format.ChatMessage{
		{Text: "c"}, {Text: "d"},
		{Model: true, Calls: []tools.Call{{Name: "f", Arguments: protocol.Raw(`{"x": 1}`)}, {Name: "g", Arguments: protocol.Raw("{}")}, {Name: "h", Arguments: protocol.Raw(`{"input":"3*7"}`)},
			{Name: "k", Arguments: protocol.Raw(`{"input":"3"}`)}}},
		{Of: "f", Text: "f"}, {Of: "g", Text: "e"}, {Of: "h", Text: pending}, {Of: "k", Text: pending},
		{Model: true, Text: "i"}, {Model: true, Text: "j"}, {System: true, Text: "k"}, {Model: true, Text: "l"},
	}
	if diff := cmp.Diff(want, m.talk.Messages); diff != "" || m.talk.System != "A\n\nB" {
		t.Errorf("%q\n%s", m.talk.System, diff)
	}
}

// BenchmarkResultOfCall: the time of each result hardly depends on the number of calls.
func BenchmarkResultOfCall(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		for _, named := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d calls, ids %t", n, named), func(b *testing.B) {
				calls := make([]ToolCall, n)
				for i := range calls {
					calls[i] = ToolCall{ID: fmt.Sprint(i), Function: Called{Name: "f"}}
				}
				for b.Loop() {
					var t Turns
					if err := t.Model(&Message{ToolCalls: calls}, ""); err != nil {
						b.Fatal(err)
					}
					for i := range calls {
						id := ""
						if named {
							id = calls[n-1-i].ID
						}
						if !t.Result(id, "ok") {
							b.Fatalf("no call waits for result %d", i)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/result")
			})
		}
	}
}

// TestReadingMessagesEndsWithTheRequest: a body may have a million messages.
func TestReadingMessagesEndsWithTheRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := &scripted{text: "ok"}
	if _, err := Chat(ctx, m, "1", []byte(`{`+hello+`}`), Stream{}); !errors.Is(err, context.Canceled) || m.talk != nil {
		t.Errorf("%v, %v", err, m.talk)
	}
}

func TestNullMembersCountAsAbsent(t *testing.T) {
	m := &scripted{text: "ok"}
	_, err := Chat(t.Context(), m, "1", []byte(`{"messages": [{"role": "user", "content": "a", "name": null, "x": null},
		{"role": "assistant", "content": null, "refusal": null, "annotations": null, "audio": null, "function_call": null, "reasoning_content": null,
			"tool_calls": [{"id": "c", "type": "function", "index": null, "function": {"name": "f", "arguments": "{}", "parsed": null}}]},
		{"role": "tool", "tool_call_id": "c", "content": "b", "tool_calls": null}],
		"tools": null, "tool_choice": null, "response_format": null, "stop": null, "n": null, "stream": null, "stream_options": null, "logit_bias": null,
		"service_tier": null, "max_tokens": null, "parallel_tool_calls": null, "metadata": null}`), Stream{})
	if err != nil || len(m.talk.Messages) != 3 {
		t.Errorf("%v, %+v", err, m.talk)
	}
}

// TestMembersOfTheServiceAreIgnored: frameworks send them, and they would not change an answer of OpenAI either.
func TestMembersOfTheServiceAreIgnored(t *testing.T) {
	m := &scripted{text: "ok"}
	_, err := Chat(t.Context(), m, "1", []byte(`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "annotations": []}, {"role": "user", "content": "c"}],
		"store": true, "metadata": {"a": "b"}, "user": "u", "service_tier": "auto", "safety_identifier": "s", "prompt_cache_key": "k", "prompt_cache_retention": "24h", "prompt_cache_options": {"mode": "explicit"}, "verbosity": "low",
		"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": false},
		"prediction": {"type": "content", "content": "d"}, "modalities": ["text"]}`), Stream{})
	if err != nil || len(m.talk.Messages) != 3 {
		t.Errorf("%v, %+v", err, m.talk)
	}
}

// thoughtless is a model without thinking to switch.
type thoughtless struct{ *scripted }

func (m thoughtless) Served() generation.Served {
	s := m.scripted.Served()
	s.Effort = ""
	return s
}

func TestModelWithoutThinkingIgnoresEffort(t *testing.T) {
	for _, more := range []string{`"reasoning_effort": "minimal"`, `"chat_template_kwargs": {"enable_thinking": true}`,
		`"chat_template_kwargs": {"enable_thinking": false}`, `"structured_outputs": {"choice": ["ok"]}`} {
		m := thoughtless{&scripted{text: "ok"}}
		if _, err := Chat(t.Context(), m, "1", []byte(`{`+hello+`, `+more+`}`), Stream{}); err != nil {
			t.Errorf("%s: %v", more, err)
		}
	}
}

func TestToolsReachTheModel(t *testing.T) {
	const a = `{"type": "function", "function": {"name": "a", "description": "x < y & z", "parameters": {"$defs": {"D": {"const": null}}}, "strict": true}}`
	const b = `{"type": "function", "function": {"name": "b"}}`
	both := []protocol.Raw{
		protocol.Raw(`{"name":"a","description":"x < y & z","parameters":{"$defs":{"D":{"const":null}}},"strict":true}`),
		protocol.Raw(`{"name":"b"}`),
	}
	for more, want := range map[string]tools.Functions{
		``: {Raw: both, OneCall: true},
		`, "tool_choice": "auto", "parallel_tool_calls": true`: {Raw: both},
		`, "tool_choice": "none"`:                              {Raw: both, OneCall: true, NoCall: true},
		`, "tool_choice": "required"`:                          {Raw: both, OneCall: true, MustCall: true},
		`, "tool_choice": {"type": "function", "function": {"name": "b"}}, "parallel_tool_calls": false`: {Raw: both, OneCall: true, MustCall: true, Only: []string{"b"}},
		`, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "b"}}]}}`: {
			Raw: both, OneCall: true, Only: []string{"b"}},
		`, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
			{"type": "function", "function": {"name": "b"}}, {"type": "function", "function": {"name": "a"}}]}}`: {
			Raw: both, OneCall: true, MustCall: true, Only: []string{"b", "a"}},
	} {
		m := &scripted{text: "ok"}
		if _, err := Chat(t.Context(), m, "1", []byte(`{`+hello+`, "tools": [`+a+`,`+b+`]`+more+`}`), Stream{}); err != nil {
			t.Errorf("%s: %v", more, err)
		} else if diff := cmp.Diff(want, m.talk.Functions); diff != "" {
			t.Errorf("%s:\n%s", more, diff)
		}
	}
}

func TestStructuredOutputsAreASchemaOrAGrammar(t *testing.T) {
	for given, want := range map[string]string{
		`"json": {"enum": [1]}`:     `{"enum": [1]} `,
		`"json_object": true`:       `{"type": "object"} `,
		`"choice": ["a b", "\"\n"]`: ` root ::= "a b" | "\"\n"`,
		`"grammar": "g"`:            ` g`,
	} {
		m := &scripted{text: "ok"}
		if _, err := Chat(t.Context(), m, "1", []byte(`{`+hello+`, "structured_outputs": {`+given+`}}`), Stream{}); err != nil {
			t.Errorf("%s: %v", given, err)
		} else if got := string(m.talk.Schema) + " " + m.request.Grammar; got != want {
			t.Errorf("%s: %s", given, got)
		}
	}
}

func TestUnusableToolsSchemasAndMessagesAreNamed(t *testing.T) {
	const both = `, "tool_choice": "none", "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}`
	for name, test := range map[string]struct {
		body string
		err  error
		want string
	}{
		"a tool":                 {withTool, &format.UnusableError{Err: errors.New("tools[0]: f: it is bad")}, "tools[0].function: f: it is bad"},
		"all tools":              {withTool, &format.UnusableError{Err: errors.New("they are bad")}, "tools: they are bad"},
		"a long chat":            {withTool, &generation.OverflowError{Prompt: 101, AtLeast: true}, "messages: have, with the tools, at least 101 tokens; with an answer that is more than the model's context of 100"},
		"the messages":           {`{` + hello, &format.TemplateError{Err: errors.New("at most three")}, "messages: the chat template can't render these messages: at most three"},
		"a format beside a tool": {withTool + both, &format.UnusableError{Err: errors.New("it is bad"), Schema: true}, "response_format.json_schema.schema: it is bad"},
		"a tool beside a format": {withTool + both, &format.UnusableError{Err: errors.New("tools[0]: f: it is bad")}, "tools[0].function: f: it is bad"},
		"structured outputs":     {`{` + hello + `, "structured_outputs": {"json": {}}`, &format.UnusableError{Err: errors.New("it is bad"), Schema: true}, "structured_outputs: it is bad"},
		"a response format":      {`{` + hello + `, "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}`, &format.UnusableError{Err: errors.New("it is bad"), Schema: true}, "response_format.json_schema.schema: it is bad"},
	} {
		_, err := Chat(t.Context(), &scripted{text: "unusable", fails: test.err}, "1", []byte(test.body+`}`), Stream{})
		var refused *Error
		if !errors.As(err, &refused) || refused.Answer || err.Error() != test.want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestCallsThatWereCompleteBeforeTheLimitAreGivenOut(t *testing.T) {
	m := &scripted{text: `{"name":"f","arguments":{}},{"name":"f","argu`, finish: generation.FinishLength}
	body, err := Chat(t.Context(), m, "1", []byte(withTool+`}`), Stream{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(body); !strings.Contains(got, `"finish_reason":"length"`) || strings.Count(got, `"name":"f"`) != 1 {
		t.Errorf("%s", got)
	}
}

func TestCallsHaveUniqueIDs(t *testing.T) {
	ids := map[string]bool{}
	for range 2 { // with the same id of a request
		m := &scripted{text: `{"name": "f", "arguments": {}}`}
		got, err := Chat(t.Context(), m, "1", []byte(withTool+`, "n": 3}`), Stream{})
		var a chatAnswer
		if err != nil || json.Unmarshal(got, &a) != nil {
			t.Fatalf("%s, %v", got, err)
		}
		for _, choice := range a.Choices {
			ids[choice.Message.ToolCalls[0].ID] = true
		}
	}
	if len(ids) != 6 {
		t.Errorf("%d ids of 6 calls", len(ids))
	}
}

// alone is a model without adapters.
type alone struct{ *scripted }

func (alone) Adapter(string) (generation.AdapterID, bool) { return 0, false }
func (alone) Adapters() []string                          { return nil }

// Answers name the model, so that a client that named an adapter can see it.
func TestAnyNameIsTheOnlyModel(t *testing.T) {
	for name, ask := range map[string]func(Model, string) ([]byte, error){
		"chat": func(m Model, field string) ([]byte, error) {
			return Chat(t.Context(), m, "1", []byte(`{`+hello+field+`}`), Stream{})
		},
		"completion": func(m Model, field string) ([]byte, error) {
			return Complete(t.Context(), m, "1", []byte(`{"prompt": "a"`+field+`}`), Stream{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &scripted{text: "ok"}
			got, err := ask(alone{m}, `, "model": "gpt-5"`)
			if err != nil || m.request.Adapter != 0 || !strings.Contains(string(got), `"model":"m"`) {
				t.Errorf("%s, %v", got, err)
			}
			if _, err := ask(m, `, "model": "gpt-5"`); err == nil || !strings.Contains(err.Error(), "the models are m, careful") {
				t.Errorf("beside an adapter: %v", err)
			}
		})
	}
	if _, err := Tokenize(t.Context(), alone{&scripted{}}, []byte(`{"prompt": "a", "model": "gpt-5"}`)); err != nil {
		t.Error(err)
	}
}

func TestBiasLeavesAToken(t *testing.T) {
	var bias []string
	for i := range 257 {
		bias = append(bias, fmt.Sprintf(`"%d": -100`, i))
	}
	for _, test := range []struct {
		bias    []string
		refused bool
	}{{bias[1:], false}, {bias, true}} {
		_, err := Complete(t.Context(), &scripted{text: "x"}, "1", []byte(`{"prompt": "a", "logit_bias": {"01": -100, `+strings.Join(test.bias, ", ")+`}}`), Stream{})
		if refused := err != nil && strings.Contains(err.Error(), "logit_bias: excludes all 257 tokens"); refused != test.refused {
			t.Errorf("%d tokens: %v", len(test.bias), err)
		}
	}
}

// TestAnswersThatDoNotFitAreErrors: the grammar can't express all of a schema.
func TestAnswersThatDoNotFitAreErrors(t *testing.T) {
	m := &scripted{text: `{"name": "g"}`}
	_, whole := Chat(t.Context(), m, "1", []byte(withTool+`}`), Stream{})
	events, inStream := streamed(t, m, withTool+`, "stream": true}`)
	for _, err := range []error{whole, inStream} {
		var refused *Error
		if !errors.As(err, &refused) || !refused.Answer || refused.Param != "choices[0]" {
			t.Errorf("got %v", err)
		}
	}
	if len(events) != 0 {
		t.Errorf("the client got %q", events)
	}
}

// mixed has a separate answer for each completion.
type mixed struct {
	scripted
	texts []string
}

func (m *mixed) GenerateAll(ctx context.Context, list []generation.Request, admitted func()) ([]*generation.Result, error) {
	results, err := m.scripted.GenerateAll(ctx, list, admitted)
	for i := range results[0].Completions {
		results[0].Completions[i].Text = m.texts[i]
	}
	return results, err
}

func TestValidChoicesEndBeforeTheErrorOfAnother(t *testing.T) {
	m := &mixed{texts: []string{"yes", `{"name": "g"}`, "no"}}
	events, err := streamed(t, m, withTool+`, "n": 3, "stream": true}`)
	text, reasons := joined(t, events)
	var refused *Error
	if !errors.As(err, &refused) || refused.Param != "choices[1]" || text != "yesno" || reasons != "stopstop" {
		t.Errorf("%v after %q", err, events)
	}
}

func TestAnInvalidAnswerIsAnErrorOfTheServer(t *testing.T) {
	for status, want := range map[int]string{400: "invalid_request_error", 422: "server_error", 503: "server_error"} {
		if body := string(AppendError(status, "m", "p")); !strings.Contains(body, `"type":"`+want+`"`) {
			t.Errorf("%d: %s", status, body)
		}
	}
}

// TestCallsInStreams: the name comes first, then the arguments, as the vendor's clients read them.
func TestCallsInStreams(t *testing.T) {
	events, err := streamed(t, &scripted{text: `{"name": "f", "arguments": {"a":"<"}}`}, withTool+`, "stream": true}`)
	if err != nil || len(events) != 4 {
		t.Fatalf("%q, %v", events, err)
	}
	id := regexp.MustCompile(`"call_[A-Z2-7]{26}"`)
	for i, want := range []string{
		`"delta":{"role":"assistant","tool_calls":[{"index":0,"id":ID,"type":"function","function":{"name":"f","arguments":""}}]}`,
		`"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":\"<\"}"}}]}`,
		`"delta":{},"logprobs":null,"finish_reason":"tool_calls"`,
	} {
		if got := id.ReplaceAllString(events[i], "ID"); !strings.Contains(got, want) {
			t.Errorf("event %d is %s, want %s", i, got, want)
		}
	}
}

func TestCallsAfterATextHaveBoth(t *testing.T) {
	m := &scripted{text: "I look.\n" + `{"name": "f", "arguments": {}}`}
	body, err := Chat(t.Context(), m, "1", []byte(withTool+`}`), Stream{})
	if got := string(body); err != nil || !strings.Contains(got, `"content":"I look.","refusal":null,"tool_calls":[{`) || !strings.Contains(got, `"finish_reason":"tool_calls"`) {
		t.Errorf("%s, %v", body, err)
	}
	events, err := streamed(t, m, withTool+`, "stream": true}`)
	text, reason := joined(t, events)
	if all := strings.Join(events, ""); err != nil || text != "I look." || reason != "tool_calls" || strings.Count(all, `"name":"f"`) != 1 {
		t.Errorf("%q, %v", events, err)
	}
}

// waiting answers when it may.
type waiting struct {
	scripted
	may chan struct{}
}

func (m *waiting) GenerateAll(ctx context.Context, list []generation.Request, admitted func()) ([]*generation.Result, error) {
	admitted()
	<-m.may
	return m.scripted.GenerateAll(ctx, list, nil)
}

func TestStreamsBeginAtOnceAndAreNeverQuiet(t *testing.T) {
	quiet, sent := make(chan time.Time), make(chan string)
	m := &waiting{scripted{text: "ok"}, make(chan struct{})}
	ended := make(chan error)
	go func() {
		_, err := Chat(t.Context(), m, "1", []byte(`{`+hello+`, "stream": true}`), Stream{Quiet: quiet, Send: func(part []byte) error {
			sent <- string(part)
			return nil
		}})
		close(sent)
		ended <- err
	}()
	if got := <-sent; got != "" {
		t.Errorf("first %q, want the headers alone", got)
	}
	for range 2 {
		quiet <- time.Time{}
		if got := <-sent; got != ": keep-alive\n\n" {
			t.Errorf("got %q", got)
		}
	}
	close(m.may)
	for range sent {
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
