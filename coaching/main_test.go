package coaching

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"agentd/coaching/backend"
	"agentd/coaching/coach"
	"agentd/coaching/internal/scriptedtest"
	"agentd/internal/base/waittest"
	"agentd/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon bounds the waits of tests for something that comes at once; only a test
// that fails waits so long.
const soon = time.Minute

// newService is a service that is closed at the end of the test. It does not sleep, but
// it does not look for people who are away either.
func newService(t *testing.T, o Options) *Service {
	t.Helper()
	if o.Sleep == nil {
		o.Sleep = func(ctx context.Context, d time.Duration) error {
			if d == coach.ProbeInterval {
				<-ctx.Done()
			}
			return ctx.Err()
		}
	}
	if o.Rand == nil {
		o.Rand = func() float64 { return 0 }
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// llmConfig is a session with these backends.
func llmConfig(backends ...protocol.CoachingBackend) *protocol.CoachingSessionConfig {
	cfg := protocol.NewCoachingSessionConfig()
	cfg.Backends = backends
	return cfg
}

// humanConfig is a session with people at an endpoint.
func humanConfig(endpoint string) *protocol.CoachingSessionConfig {
	cfg := protocol.NewCoachingSessionConfig()
	cfg.Provider, cfg.Endpoint = protocol.ProviderHuman, endpoint
	return cfg
}

// openai is a backend at a test server.
func openai(name, endpoint string) protocol.CoachingBackend {
	b := protocol.NewCoachingBackend(name, protocol.BackendOpenAI)
	b.Endpoint, b.DefaultModel = endpoint, "coach"
	b.MaxRetry = 2
	return b
}

// local is the server's own model.
func local() protocol.CoachingBackend {
	return protocol.NewCoachingBackend("own", protocol.BackendLocal)
}

func configure(t *testing.T, s *Service, runID string, cfg *protocol.CoachingSessionConfig) {
	t.Helper()
	if err := s.Configure(t.Context(), runID, cfg); err != nil {
		t.Fatalf("Configure: %v", err)
	}
}

// mustCoach asks and fails the test on an error.
func mustCoach(t *testing.T, s *Service, req *protocol.SpecializedCoachingRequest) *protocol.SpecializedCoachingResponse {
	t.Helper()
	res, err := s.Coach(t.Context(), req)
	if err != nil {
		t.Fatalf("Coach: %v", err)
	}
	return res
}

// newRequest is a request to repair a call that went to the wrong place.
func newRequest(runID, requestID string) *protocol.SpecializedCoachingRequest {
	return requestOf(runID, requestID, protocol.CoachingFailure, `{"id":"p","input_step_id":7}`)
}

func requestOf(runID, requestID, kind, points string) *protocol.SpecializedCoachingRequest {
	const step = `{"id":7,"input":{"id":1,"instruction":{"type":"user","content":"Bring the cup."},
		"tools":[{"name":"move","description":"Drive to a place","parameters":{"place":{"type":"string"}}}]},
		"output":{"say":"","tool_calls":[{"name":"move","arguments":{"place":"cellar"},"target_robot_name":"robot"}]}}`
	req, err := protocol.DecodeSpecializedCoachingRequest(fmt.Appendf(nil,
		`{"run_id":%q,"request_id":%q,"kind":%q,"stage":{"id":1,"goal":"Bring the cup to the kitchen."},
		"active_errors":[{"code":"wrong_place","description":"The cup is not in the cellar."}],
		"target_step_id":7,"trajectory":[%s],"reinjection_points":[%s]}`, runID, requestID, kind, step, points))
	if err != nil {
		panic(err)
	}
	return req
}

// Answers of a coach to request.
const (
	goodAnswer     = `{"outcome":"corrected","why":"The cup is in the kitchen.","reinjection_point_id":"p","decision":{"say":"I look in the kitchen.","tool_calls":[]}}`
	declinedAnswer = `{"outcome":"abandoned","why":"Nobody knows where the cup is.","reinjection_point_id":"p","decision":{"say":"","tool_calls":[]}}`
	invalidAnswer1 = `{"outcome":"corrected","why":"Try.","reinjection_point_id":"elsewhere","decision":{"say":"x","tool_calls":[]}}`
	goodProposal   = `{"kind":"replace_say","text":"I look in the kitchen."}`
)

// says is a chat completion with this text.
func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		content, _ := json.Marshal(text)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"coach-1","choices":[{"index":0,"finish_reason":"stop",
			"message":{"role":"assistant","content":%s}}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`, content)
	}
}

// fails is an error of the API.
func fails(status int, header ...string) http.HandlerFunc {
	return scriptedtest.Answer(status, `{"error":{"message":"no such luck","type":"server_error"}}`, header...)
}

// hangs answers nothing until the client leaves, or the test ends it.
func hangs(until <-chan struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices that a client leaves once the body is read
		select {
		case <-r.Context().Done():
		case <-until:
		}
	}
}

// receive takes what must come.
func receive[T any](t *testing.T, from <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(soon):
		t.Fatalf("%s did not come", what)
	}
	return v
}

// modelFunc is a local model that answers with a function.
type modelFunc func(ctx context.Context, q backend.Question) (backend.Answer, error)

func (m modelFunc) Ask(ctx context.Context, q backend.Question) (backend.Answer, error) {
	return m(ctx, q)
}
func (modelFunc) Window() int { return 32768 }

// answers is a local model with one answer.
func answers(text string) modelFunc {
	return func(context.Context, backend.Question) (backend.Answer, error) {
		return backend.Answer{Text: text, PromptTokens: 3, CompletionTokens: 2}, nil
	}
}

// waitFor waits until something that happens soon has happened.
func waitFor(t *testing.T, happened func() bool) {
	t.Helper()
	waittest.Eventually(t, "what is awaited", happened)
}

// discardLog is for servers that are expected to log errors.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// output is everything that a service says beside its responses.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	metrics *prometheus.Registry
}

// Write takes the server's log.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) registry() *prometheus.Registry {
	o.metrics = prometheus.NewRegistry()
	return o.metrics
}

// mustNotHold fails the test if a text is anywhere: in the server's log, the
// metrics or the responses.
func (o *output) mustNotHold(t *testing.T, text string, responses ...*protocol.SpecializedCoachingResponse) {
	t.Helper()
	families, err := o.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{"metrics": fmt.Sprint(families)}
	o.mu.Lock()
	said["server's log"] = o.text.String()
	o.mu.Unlock()
	for i, res := range responses {
		said[fmt.Sprintf("response %d", i)] = string(res.AppendJSON(nil))
	}
	for where, s := range said {
		if s == "" {
			t.Errorf("the %s is empty", where)
		}
		if strings.Contains(s, text) {
			t.Errorf("the %s holds %q:\n%s", where, text, s)
		}
	}
}
