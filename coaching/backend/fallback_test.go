package backend

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/coaching/egress"
	"agentd/coaching/internal/scriptedtest"
	"agentd/protocol"
)

// modeOf finds how a request asks for JSON.
func modeOf(body string) string {
	switch {
	case strings.Contains(body, `"response_format"`), strings.Contains(body, `"format"`):
		return ModeSchema
	case strings.Contains(body, `"tool_choice"`):
		return ModeTool
	case strings.Contains(body, "```json"):
		return ModeText
	default:
		return "nothing"
	}
}

func modes(s *scriptedtest.Server) (list []string) {
	for _, c := range s.Calls() {
		list = append(list, modeOf(c.Body))
	}
	return list
}

// only is an endpoint that refuses all modes but one with a status, and answers that one with a body.
func only(t *testing.T, mode string, status int, body string) *scriptedtest.Server {
	t.Helper()
	var s *scriptedtest.Server
	s = scriptedtest.New(t, func(w http.ResponseWriter, r *http.Request) {
		calls := s.Calls()
		if modeOf(calls[len(calls)-1].Body) == mode {
			scriptedtest.Answer(200, body)(w, r)
		} else {
			scriptedtest.Answer(status, `{"error":{"message":"not supported"}}`)(w, r)
		}
	})
	return s
}

func TestFallbackStartsWithStrictestSupportedMode(t *testing.T) {
	fenced := "Here:\n```json\n" + answer + "\n```"
	for _, c := range []struct {
		name, typ, path, mode, body, text string
		status                            int
		first, later                      []string
	}{
		{"chat with schema", protocol.BackendOpenAI, "", ModeSchema, chatBody(answer, "stop"), answer, 400,
			[]string{ModeSchema}, []string{ModeSchema}},
		{"chat with tools", protocol.BackendOpenAI, "", ModeTool, chatToolBody(answer), answer, 400,
			[]string{ModeSchema, ModeTool}, []string{ModeTool}},
		{"chat with tools and an object", protocol.BackendOpenAI, "", ModeTool, strings.Replace(chatToolBody(answer), strconv.Quote(answer), answer, 1), answer, 400,
			[]string{ModeSchema, ModeTool}, []string{ModeTool}},
		{"chat with text", protocol.BackendOpenAI, "", ModeText, chatBody(fenced, "stop"), fenced, 404,
			[]string{ModeSchema, ModeTool, ModeText}, []string{ModeText}},
		{"ollama as chat with tools", protocol.BackendOllama, "", ModeTool, chatToolBody(answer), answer, 422,
			[]string{ModeSchema, ModeTool}, []string{ModeTool}},
		{"ollama with text", protocol.BackendOllama, ollamaChat, ModeText, ollamaBody(fenced, "stop"), fenced, 400,
			[]string{ModeSchema, ModeText}, []string{ModeText}},
		{"anthropic with text", protocol.BackendAnthropic, "", ModeText, claudeBody(`{"type":"text","text":"{\"why\":\"b\","},{"type":"text","text":"\"outcome\":\"a\"}"}`, "end_turn"), answer, 501,
			[]string{ModeTool, ModeText}, []string{ModeText}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := only(t, c.mode, c.status, c.body)
			b := newBackend(t, define(c.typ, s.URL+c.path), egress.ClientOptions{})
			for range 2 {
				a, err := b.Ask(t.Context(), question())
				if err != nil {
					t.Fatal(err)
				}
				if a.Text != c.text || a.Mode != c.mode {
					t.Errorf("the answer is %+v, want mode %s", a, c.mode)
				}
			}
			if diff := cmp.Diff(append(c.first, c.later...), modes(s)); diff != "" {
				t.Errorf("the ways it was asked differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestToolModeForcesToolWithSchema(t *testing.T) {
	s := only(t, ModeTool, 400, chatToolBody(answer))
	if _, err := newBackend(t, define(protocol.BackendOpenAI, s.URL), egress.ClientOptions{}).Ask(t.Context(), question()); err != nil {
		t.Fatal(err)
	}
	want := parse(t, `{"model":"asked-model","max_tokens":77,"messages":`+chatMessages+`,
		"tools":[{"type":"function","function":{"name":"repair","description":"`+toolDescription+`","parameters":`+testSchema+`}}],
		"tool_choice":{"type":"function","function":{"name":"repair"}}}`)
	if diff := cmp.Diff(want, s.Calls()[1].JSON(t)); diff != "" {
		t.Errorf("the body differs (-want +got):\n%s", diff)
	}
}

func TestTextModeAppendsSchemaToInstructions(t *testing.T) {
	s := only(t, ModeText, 400, chatBody(answer, "stop"))
	a, err := newBackend(t, define(protocol.BackendOpenAI, s.URL), egress.ClientOptions{}).Ask(t.Context(), question())
	if err != nil {
		t.Fatal(err)
	}
	first := s.Calls()[2].JSON(t)["messages"].([]any)[0].(map[string]any)
	text, _ := first["content"].(string)
	if first["role"] != "system" || text != "You are a coach."+a.Appended || !strings.Contains(text, testSchema) {
		t.Errorf("the first message is %v", first)
	}
}

func TestIgnoredSchemaLowersTheMode(t *testing.T) {
	for name, c := range map[string]struct {
		typ, path, body string
		want            []string
	}{
		"chat":      {protocol.BackendOpenAI, "", chatBody("Sure! {}", "stop"), []string{ModeSchema, ModeTool, ModeText, ModeText}},
		"ollama":    {protocol.BackendOllama, ollamaChat, ollamaBody("Sure! {}", "stop"), []string{ModeSchema, ModeText, ModeText}},
		"anthropic": {protocol.BackendAnthropic, "", claudeBody(`{"type":"text","text":"Sure! {}"}`, "end_turn"), []string{ModeTool, ModeText, ModeText}},
	} {
		t.Run(name, func(t *testing.T) {
			s := scriptedtest.New(t, scriptedtest.Answer(200, c.body))
			b := newBackend(t, define(c.typ, s.URL+c.path), egress.ClientOptions{})
			for range c.want {
				a, err := b.Ask(t.Context(), question())
				if err != nil || a.Text != "Sure! {}" || a.Mode != ModeText {
					t.Fatalf("got %+v, %v", a, err)
				}
			}
			if diff := cmp.Diff(c.want, modes(s)); diff != "" {
				t.Errorf("the ways it was asked differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLastModeRefusalIsTheError(t *testing.T) {
	s := scriptedtest.New(t, scriptedtest.Answer(400, `{"error":"no response_format"}`), scriptedtest.Answer(400, `{"error":"no tools"}`), scriptedtest.Answer(400, `{"error":"prompt too long"}`))
	b := newBackend(t, define(protocol.BackendOpenAI, s.URL), egress.ClientOptions{})
	_, err := impatient(3, nil).Ask(t.Context(), b, question())
	if e := mustFail(t, KindRefused, err); e.Detail != "prompt too long" {
		t.Errorf("it says %q", e)
	}
	if diff := cmp.Diff([]string{ModeSchema, ModeTool, ModeText}, modes(s)); diff != "" {
		t.Errorf("the ways it was asked differ (-want +got):\n%s", diff)
	}
	if _, err := b.Ask(t.Context(), question()); err == nil || modes(s)[3] != ModeSchema {
		t.Errorf("after nothing worked it is asked with %s, want the strictest way again", modes(s)[3])
	}
}

func TestOtherFaultsKeepTheMode(t *testing.T) {
	for _, status := range []int{401, 403, 413, 429, 500, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s := scriptedtest.New(t, scriptedtest.Answer(status, ""))
			_, err := newBackend(t, define(protocol.BackendOpenAI, s.URL), egress.ClientOptions{}).Ask(t.Context(), question())
			if err == nil || len(s.Calls()) != 1 {
				t.Errorf("%d requests: %v", len(s.Calls()), err)
			}
		})
	}
}

func TestTokenLimitIsRenamedOnRefusal(t *testing.T) {
	var s *scriptedtest.Server
	s = scriptedtest.New(t, func(w http.ResponseWriter, _ *http.Request) {
		calls := s.Calls()
		if strings.Contains(calls[len(calls)-1].Body, `"max_tokens"`) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}`)
			return
		}
		_, _ = io.WriteString(w, chatBody(answer, "stop"))
	})
	b := newBackend(t, define(protocol.BackendOpenAI, s.URL), egress.ClientOptions{})
	for range 2 {
		if a, err := b.Ask(t.Context(), question()); err != nil || a.Mode != ModeSchema {
			t.Fatalf("got %+v, %v", a, err)
		}
	}
	calls := s.Calls()
	if len(calls) != 3 || calls[2].JSON(t)["max_completion_tokens"] != float64(77) {
		t.Errorf("%d requests, the last %s", len(calls), calls[len(calls)-1].Body)
	}
}

func TestRefusedLengthIsAskedForOnceWithAQuarter(t *testing.T) {
	refusal := scriptedtest.Answer(400, `{"error":{"message":"max_tokens: is 77, and the prompt has 50 tokens"}}`)
	fits, never := scriptedtest.New(t, refusal, scriptedtest.Answer(200, chatBody(answer, "stop"))), scriptedtest.New(t, refusal)
	if a, err := newBackend(t, define(protocol.BackendOpenAI, fits.URL), egress.ClientOptions{}).Ask(t.Context(), question()); err != nil || a.Mode != ModeSchema {
		t.Errorf("got %+v, %v", a, err)
	}
	if limit := fits.Calls()[1].JSON(t)["max_tokens"]; limit != 19.0 {
		t.Errorf("the second limit is %v", limit)
	}
	_, err := newBackend(t, define(protocol.BackendOpenAI, never.URL), egress.ClientOptions{}).Ask(t.Context(), question())
	mustFail(t, KindRefused, err)
	if diff := cmp.Diff([]string{ModeSchema, ModeSchema, ModeTool, ModeText}, modes(never)); diff != "" {
		t.Errorf("the ways it was asked differ (-want +got):\n%s", diff)
	}
}

func TestConcurrentQuestionsShareLearnedMode(t *testing.T) {
	s := only(t, ModeText, 400, chatBody(answer, "stop"))
	// only looks at the newest request, which another may have become: this endpoint looks at its own.
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if modeOf(string(body)) == ModeText {
			scriptedtest.Answer(200, chatBody(answer, "stop"))(w, r)
			return
		}
		scriptedtest.Answer(400, "")(w, r)
	})
	b := newBackend(t, define(protocol.BackendOpenAI, s.URL), egress.ClientOptions{})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if a, err := b.Ask(t.Context(), question()); err != nil || a.Mode != ModeText {
				t.Errorf("got %+v, %v", a, err)
			}
		})
	}
	wg.Wait()
	if first := b.(*remote).modes.first.Load(); first != 2 {
		t.Errorf("later questions begin at %d", first)
	}
}

func TestLateStricterAnswerKeepsLearnedMode(t *testing.T) {
	l := modeFallback{modes: []string{ModeSchema, ModeTool, ModeText}}
	for _, c := range []struct{ asked, want int }{{0, 0}, {1, 1}, {0, 1}, {2, 2}, {1, 2}} {
		l.keep(c.asked, Answer{Mode: l.modes[c.asked]})
		if got := int(l.first.Load()); got != c.want {
			t.Errorf("after an answer to %s questions begin at %d, want %d", l.modes[c.asked], got, c.want)
		}
	}
}
