package target

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"agentd/bench/workload"
	"agentd/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server that a test's end stops.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// closing closes a target at the test's end, before the server stops.
func closing[T Target](t *testing.T) func(Target, error) T {
	return func(target Target, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := target.Close(); err != nil {
				t.Error(err)
			}
		})
		return target.(T)
	}
}

// turn is a rendered one with a tool, a rule and a history.
func turn(candidates int) *workload.Turn {
	req, err := protocol.DecodeAgentRequest([]byte(`{"request_id":"r","inputs":[{"id":17,"instruction":{"type":"env","content":"At the door."},` +
		`"tools":[{"name":"go","description":"Drive.","parameters":{"to":{"type":"string","description":"Where."}}}],` +
		`"attributes":{"known_robots":["rover"]},"extra_keys":{"x":1.0},` +
		`"memory":{"memory_list":["Be kind."],"history":[{"author":"USER","content":"Go home."},` +
		`{"author":"MODEL","content":"{\"say\": \"\", \"action\": {\"rover\": {\"name\": \"go\", \"arguments\": {\"to\": \"door\"}}}}"}]}}]}`))
	if err != nil {
		panic(err)
	}
	return &workload.Turn{
		Agent: 3, Turn: 2, Candidates: candidates, Input: req.Inputs[0],
		Prompt: "<|im_start|>the prompt", Tokens: []int32{5, 6, 7}, Grammar: `root ::= "x"`,
	}
}

// bodyOf reads a request's JSON.
func bodyOf(t *testing.T, r *http.Request) map[string]any {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		t.Errorf("%s of %s", err, text)
	}
	return body
}

// reply is a handler that answers everything alike.
func reply(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Add(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// wantFailure checks the kind of an error and what it says.
func wantFailure(t *testing.T, err error, kind, says string) *Failure {
	t.Helper()
	var f *Failure
	if !errors.As(err, &f) || f.Kind != kind || !strings.Contains(err.Error(), says) {
		t.Fatalf("error is %v, want %s with %q", err, kind, says)
	}
	return f
}
