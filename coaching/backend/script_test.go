package backend

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/coaching/egress"
	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// key is the secret of the tests' session. It must never come out.
const key = "sk-session-4f9a1c77"

// question is the question of the tests. The properties of its schema are in an order that sorting would change.
func question() Question {
	return Question{
		System:     "You are a coach.",
		Messages:   []Message{{RoleUser, "What now?"}, {RoleAssistant, "{}"}, {RoleUser, "That was invalid."}},
		SchemaName: "repair",
		Schema:     protocol.Raw(testSchema),
		Exact:      protocol.Raw(`{"type":"object","properties":{"exact":{"type":"boolean"}}}`),
		MaxTokens:  77,
	}
}

const testSchema = `{"type":"object","properties":{"why":{"type":"string"},"outcome":{"type":"string"}},"required":["why","outcome"],"additionalProperties":false}`

// answer is the text that scripted models give.
const answer = `{"why":"b","outcome":"a"}`

func chatBody(text, finish string) string {
	return fmt.Sprintf(`{"id":"c1","object":"chat.completion","created":1,"model":"served-model","choices":[{"index":0,"finish_reason":%q,
		"message":{"role":"assistant","content":%q}}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`, finish, text)
}

func chatToolBody(arguments string) string {
	return fmt.Sprintf(`{"id":"c1","object":"chat.completion","created":1,"model":"served-model","choices":[{"index":0,"finish_reason":"tool_calls",
		"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"repair","arguments":%q}}]}}],
		"usage":{"prompt_tokens":11,"completion_tokens":7}}`, arguments)
}

func claudeBody(content, stop string) string {
	return fmt.Sprintf(`{"id":"m1","type":"message","role":"assistant","model":"served-model","content":[%s],"stop_reason":%q,
		"usage":{"input_tokens":9,"cache_read_input_tokens":2,"output_tokens":7}}`, content, stop)
}

const claudeTool = `{"type":"tool_use","id":"t1","name":"repair","input":` + answer + `}`

func ollamaBody(text, reason string) string {
	return fmt.Sprintf(`{"model":"served-model","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":%q},"done":true,
		"done_reason":%q,"prompt_eval_count":11,"eval_count":7}`, text, reason)
}

// define returns a definition of one of the remote types.
func define(typ, endpoint string) protocol.CoachingBackend {
	def := protocol.NewCoachingBackend("primary", typ)
	def.Endpoint, def.DefaultModel = endpoint, "asked-model"
	def.Headers = protocol.Headers{"Authorization": "Bearer " + key}
	return def
}

// newBackend returns a backend that may connect to loopback addresses.
func newBackend(t *testing.T, def protocol.CoachingBackend, o egress.ClientOptions) Backend {
	t.Helper()
	policy, err := egress.NewPolicy([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	client := policy.NewClient(o)
	t.Cleanup(client.Close)
	b, err := New(def, Options{Client: client, Redactor: quote.NewRedactor(def.Headers)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// impatient retries without waiting, and writes down how long it would have waited.
func impatient(limit int64, waits *[]time.Duration) Retry {
	return Retry{Max: limit, Sleep: sleepNever(waits), Rand: func() float64 { return 0 }, Now: time.Now, OnAttempt: func(Attempt) {}}
}

// mustFail asks and wants an error of a kind that reveals nothing it should not.
func mustFail(t *testing.T, kind Kind, err error) *Error {
	t.Helper()
	e, ok := err.(*Error) //nolint:errorlint // Ask promises this very type
	if !ok {
		t.Fatalf("got %T %v, want a *Error", err, err)
	}
	if e.Kind != kind {
		t.Errorf("kind is %s, want %s: %v", e.Kind, kind, e)
	}
	for _, text := range []string{e.Error(), e.Detail, fmt.Sprintf("%v %+v %#v %q", e, e, e, e), mustJSON(t, e)} {
		if strings.Contains(text, key) {
			t.Errorf("the key is in %s", text)
		}
	}
	if n := len([]rune(e.Detail)); n > maxDetail {
		t.Errorf("the detail has %d characters, more than %d", n, maxDetail)
	}
	return e
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
