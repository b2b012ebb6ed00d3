package backend

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/coaching/egress"
	"agentd/coaching/internal/scriptedtest"
	"agentd/protocol"
)

// parse reads the JSON that a test expects.
func parse(t *testing.T, s string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

const chatMessages = `[{"role":"system","content":"You are a coach."},{"role":"user","content":"What now?"},
	{"role":"assistant","content":"{}"},{"role":"user","content":"That was invalid."}]`

const chatRequest = `{"model":"asked-model","max_tokens":77,"messages":` + chatMessages + `,
	"response_format":{"type":"json_schema","json_schema":{"name":"repair","strict":true,"schema":` + testSchema + `}}}`

func TestEachTypeHasItsRequestAndAnswer(t *testing.T) {
	want := Answer{Text: answer, Model: "served-model", PromptTokens: 11, CompletionTokens: 7, Mode: ModeSchema}
	tool := want
	tool.Mode = ModeTool
	for _, c := range []struct {
		name, typ, path, target, body, answer string
		want                                  Answer
	}{
		{"openai at a base", protocol.BackendOpenAI, "/v1", "/v1/chat/completions", chatRequest, chatBody(answer, "stop"), want},
		{"openai at a whole URL with a query", protocol.BackendOpenAI, "/d/chat/completions?api-version=2024-10-21",
			"/d/chat/completions?api-version=2024-10-21", chatRequest, chatBody(answer, "stop"), want},
		{"ollama at a base", protocol.BackendOllama, "", "/v1/chat/completions", chatRequest, chatBody(answer, "stop"), want},
		{"ollama's own API", protocol.BackendOllama, "/api/chat", "/api/chat", `{"model":"asked-model","stream":false,"truncate":false,
			"shift":false,"options":{"num_predict":77},"format":` + testSchema + `,"messages":` + chatMessages + `}`, ollamaBody(answer, "stop"), want},
		{"anthropic", protocol.BackendAnthropic, "", "/v1/messages", `{"model":"asked-model","max_tokens":77,
			"system":[{"type":"text","text":"You are a coach."}],
			"messages":[{"role":"user","content":[{"type":"text","text":"What now?"}]},{"role":"assistant","content":[{"type":"text","text":"{}"}]},
				{"role":"user","content":[{"type":"text","text":"That was invalid."}]}],
			"tools":[{"name":"repair","description":"` + toolDescription + `","input_schema":` + testSchema + `}],
			"tool_choice":{"type":"tool","name":"repair","disable_parallel_tool_use":true}}`, claudeBody(claudeTool, "tool_use"), tool},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scriptedtest.New(t, scriptedtest.Answer(200, c.answer))
			b := newBackend(t, define(c.typ, s.URL+c.path), egress.ClientOptions{})
			got, err := b.Ask(t.Context(), question())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the answer differs (-want +got):\n%s", diff)
			}
			calls := s.Calls()
			if len(calls) != 1 || calls[0].Method != http.MethodPost || calls[0].Target != c.target {
				t.Fatalf("the endpoint got %d requests, the first %s %s, want one POST %s", len(calls), calls[0].Method, calls[0].Target, c.target)
			}
			if diff := cmp.Diff(parse(t, c.body), calls[0].JSON(t)); diff != "" {
				t.Errorf("the body differs (-want +got):\n%s", diff)
			}
			properties := testSchema[strings.Index(testSchema, `{"why"`):strings.Index(testSchema, `,"required"`)]
			if !strings.Contains(calls[0].Body, properties) {
				t.Errorf("the schema's properties were reordered: %s", calls[0].Body)
			}
			if b.Name() != "primary" || b.Type() != c.typ || b.Budget() != 0 {
				t.Errorf("the backend is %s %s with budget %d", b.Name(), b.Type(), b.Budget())
			}
			described := "primary (" + c.typ + ", asked-model at " + s.URL + strings.SplitN(c.target, "?", 2)[0] + ")"
			if b.Describe() != described {
				t.Errorf("it describes itself as %s, want %s", b.Describe(), described)
			}
		})
	}
}

func TestRequestsCarryOnlySessionHeaders(t *testing.T) {
	for typ, ok := range map[string]string{
		protocol.BackendOpenAI: chatBody(answer, "stop"), protocol.BackendAnthropic: claudeBody(claudeTool, "tool_use"),
		"ollama's own": ollamaBody(answer, "stop"),
	} {
		t.Run(typ, func(t *testing.T) {
			s := scriptedtest.New(t, scriptedtest.Answer(200, ok))
			def := define(typ, s.URL)
			if typ == "ollama's own" {
				def = define(protocol.BackendOllama, s.URL+ollamaChat)
			}
			def.Headers = protocol.Headers{"x-api-key": key, "X-Team": "robots"}
			if _, err := newBackend(t, def, egress.ClientOptions{}).Ask(t.Context(), question()); err != nil {
				t.Fatal(err)
			}
			header := s.Calls()[0].Header
			want := map[string]string{
				"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "agentd",
				"X-Api-Key": key, "X-Team": "robots",
			}
			if typ == protocol.BackendAnthropic {
				want["Anthropic-Version"] = "2023-06-01"
			}
			for name, value := range want {
				if header.Get(name) != value {
					t.Errorf("%s is %q, want %q", name, header.Get(name), value)
				}
			}
			for name := range header {
				switch name {
				case "Accept-Encoding", "Content-Length", "Connection":
				default:
					if _, ok := want[name]; !ok {
						t.Errorf("%s: %s was sent too", name, header.Get(name))
					}
				}
			}
		})
	}
}

func TestSessionMayOverrideAnthropicVersion(t *testing.T) {
	s := scriptedtest.New(t, scriptedtest.Answer(200, claudeBody(claudeTool, "tool_use")))
	def := define(protocol.BackendAnthropic, s.URL)
	def.Headers["anthropic-version"] = "2030-01-01"
	if _, err := newBackend(t, def, egress.ClientOptions{}).Ask(t.Context(), question()); err != nil {
		t.Fatal(err)
	}
	if got := s.Calls()[0].Header.Values("Anthropic-Version"); len(got) != 1 || got[0] != "2030-01-01" {
		t.Errorf("anthropic-version is %q", got)
	}
}

func TestQuestionWithoutLimitUsesDefault(t *testing.T) {
	s := scriptedtest.New(t, scriptedtest.Answer(200, chatBody(answer, "stop")))
	q := question()
	q.MaxTokens = 0
	if _, err := newBackend(t, define(protocol.BackendOpenAI, s.URL), egress.ClientOptions{}).Ask(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if got := s.Calls()[0].JSON(t)["max_tokens"]; got != float64(DefaultMaxTokens) {
		t.Errorf("max_tokens is %v, want %d", got, DefaultMaxTokens)
	}
}

func TestLargeTokenLimitIsSent(t *testing.T) {
	s := scriptedtest.New(t, scriptedtest.Answer(200, claudeBody(claudeTool, "tool_use")))
	q := question()
	q.MaxTokens = 1 << 20
	if _, err := newBackend(t, define(protocol.BackendAnthropic, s.URL), egress.ClientOptions{}).Ask(t.Context(), q); err != nil {
		t.Fatal(err)
	}
}

func TestAnswersWithoutUsageOrModelAreValid(t *testing.T) {
	for name, c := range map[string]struct{ typ, path, body string }{
		"chat":      {protocol.BackendOpenAI, "", `{"choices":[{"message":{"content":"{}"}}]}`},
		"ollama":    {protocol.BackendOllama, ollamaChat, `{"message":{"content":"{}"}}`},
		"anthropic": {protocol.BackendAnthropic, "", `{"content":[{"type":"tool_use","input":{}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := scriptedtest.New(t, scriptedtest.Answer(200, c.body, "Content-Type", "text/plain"))
			a, err := newBackend(t, define(c.typ, s.URL+c.path), egress.ClientOptions{}).Ask(t.Context(), question())
			if err != nil {
				t.Fatal(err)
			}
			if a.Text != "{}" || a.Model != "asked-model" || a.PromptTokens != 0 || a.CompletionTokens != 0 {
				t.Errorf("the answer is %+v", a)
			}
		})
	}
}

func TestModelNameIsSafeForLogs(t *testing.T) {
	s := scriptedtest.New(t, scriptedtest.Answer(200, `{"model":"`+key+`\n# `+strings.Repeat("m", 999)+`","choices":[{"message":{"content":"{}"}}]}`))
	a, err := newBackend(t, define(protocol.BackendOpenAI, s.URL), egress.ClientOptions{}).Ask(t.Context(), question())
	if err != nil || len([]rune(a.Model)) != maxShownName || !strings.HasPrefix(a.Model, "*** # mmm") {
		t.Errorf("the model is %q: %v", a.Model, err)
	}
}

func TestUnknownTypesAndMissingPartsAreErrors(t *testing.T) {
	policy, err := egress.NewPolicy(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := policy.NewClient(egress.ClientOptions{})
	defer client.Close()
	for name, c := range map[string]struct {
		def  protocol.CoachingBackend
		o    Options
		want string
	}{
		"unknown type":    {define("gemini", "http://h"), Options{Client: client}, `"gemini" is unknown: use openai, ollama, anthropic or local`},
		"no local model":  {define(protocol.BackendLocal, ""), Options{Client: client}, "the default model can't coach; start the server with a model"},
		"no client":       {define(protocol.BackendOpenAI, "http://h"), Options{}, "no client"},
		"endpoint no URL": {define(protocol.BackendOpenAI, "h:1"), Options{Client: client}, "is not a URL: use http://"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(c.def, c.o); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `backend "primary"`) {
				t.Errorf("got %v, want it to say %q and the backend", err, c.want)
			}
		})
	}
}
