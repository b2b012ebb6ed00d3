package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"agentd/llama/synth"
	"agentd/protocol"
)

// coachKey is the secret of the tests' sessions. It must come out nowhere but in
// the header that it is for.
const coachKey = "sk-session-93c1"

// coaches is a scripted endpoint: of a chat model, and of people.
type coaches struct {
	*httptest.Server
	hold chan struct{} // nil, or what every POST waits for

	mu       sync.Mutex
	reply    string // of the model
	requests []string
	arrived  chan string
}

func newCoaches(t *testing.T, reply string) *coaches {
	c := &coaches{reply: reply, arrived: make(chan string, 64)}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *coaches) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if strings.Contains(string(body), "test of the connection") {
		answerChat(w, "{}") // by PUT, which asks for no repair
		return
	}
	c.mu.Lock()
	c.requests = append(c.requests, fmt.Sprintf("%s %s %s\n%s", r.Method, r.URL.Path, r.Header.Get("Authorization"), body))
	reply := c.reply
	c.mu.Unlock()
	c.arrived <- r.Method
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if c.hold != nil {
		select {
		case <-c.hold:
		case <-r.Context().Done():
			return
		}
	}
	answerChat(w, reply)
}

// answerChat writes a chat completion.
func answerChat(w http.ResponseWriter, reply string) {
	w.Header().Set("Content-Type", "application/json")
	answer, err := json.Marshal(map[string]any{
		"id": "1", "object": "chat.completion", "created": 1, "model": "scripted",
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": reply}}},
		"usage":   map[string]any{"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
	})
	if err == nil {
		_, _ = w.Write(answer)
	}
}

func (c *coaches) seen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.requests, "\n")
}

// llmSession configures one backend, with a header that means nothing.
func llmSession(typ, endpoint string) string {
	return fmt.Sprintf(`{"backends": {"b": {"type": %q, "endpoint": %q, "model": "m", "max_retry": 0, "headers": {"Authorization": "Bearer %s", "Content-type": "application/json"}}}}`,
		typ, endpoint, coachKey)
}

func humanSession(endpoint string) string {
	return fmt.Sprintf(`{"provider": "human", "endpoint": %q}`, endpoint)
}

const session1 = "/v1/coaching/sessions/run%2F1"

const doorTool = `[{"name": "open", "description": "Opens a door.", "parameters": {"door": {"type": "str", "description": "Which"}, "bay": {"type": "int", "description": "Where"}}}]`

// failedStep is the input of the step that failed.
func failedStep() input {
	in := user(7, "Open the pantry.").tools(doorTool)
	in.Attributes = json.RawMessage(`{"known_robots": ["arm", "base"]}`)
	return in.memory(`{"history": [{"author": "USER", "content": "Hello"}, {"author": "MODEL", "content": "{\"say\": \"Hello.\", \"action\": {}}"}], "mood": 1.50}`)
}

// coachingRequest asks for the repair of that step.
func coachingRequest(t *testing.T, requestID string) string {
	t.Helper()
	return coachingRequestFor(t, requestID, failedStep())
}

func coachingRequestFor(t *testing.T, requestID string, failed input) string {
	t.Helper()
	in, err := json.Marshal(failed)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"run_id": "run/1", "request_id": %q, "kind": "failure", "stage": {"id": 1, "goal": "The pantry is open."}, "target_step_id": 3,
		"trajectory": [{"id": 3, "input": %s, "output": {"say": "There is no pantry."}}],
		"active_errors": [{"code": "gave_up", "description": "The agent gave up.", "details": {}}],
		"reinjection_points": [{"id": "start", "input_step_id": 3}]}`, requestID, in)
}

// coach posts a coaching request and returns its response, checked against it.
func (r *running) coach(body string) *protocol.SpecializedCoachingResponse {
	r.t.Helper()
	status, answer, err := exchange("POST", r.url+"/v1/coaching", body)
	if err != nil || status != http.StatusOK {
		r.t.Fatalf("got %d %.500s, %v", status, answer, err)
	}
	req, err := protocol.DecodeSpecializedCoachingRequest([]byte(body))
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := protocol.DecodeSpecializedCoachingResponse([]byte(answer))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := resp.Validate(req); err != nil {
		r.t.Fatalf("%v\nin %s", err, answer)
	}
	return resp
}

// expect sends a request and checks status and a part of the answer.
func (r *running) expect(status int, part, method, path, body string) {
	r.t.Helper()
	got, answer, err := exchange(method, r.url+path, body)
	if err != nil || got != status || !strings.Contains(answer, part) {
		r.t.Errorf("%s %s: got %d %.500s, %v; want %d with %s", method, path, got, answer, err, status, part)
	}
}

// TestLocalModelCoaches: its answer is random, and constrained so that
// it is a valid correction whenever it is one.
func TestLocalModelCoaches(t *testing.T) {
	t.Parallel()
	for _, arch := range []string{synth.Qwen3, synth.GPTOSS, synth.Llama} {
		t.Run(arch, func(t *testing.T) {
			spec, err := synth.Preset("tiny", arch)
			if err != nil {
				t.Fatal(err)
			}
			spec.Bias = maps.Clone(spec.Bias)
			maps.Copy(spec.Bias, map[string]float32{`"`: 20, "<|end|>": 22, "correct": 16})
			path, err := synth.Cached("", spec)
			if err != nil {
				t.Fatal(err)
			}
			serveModel(t, "--model", path).atOne(t, ownModelCoaches)
			t.Run("through llama-server", func(t *testing.T) {
				ownModelCoaches(t, serveEngines(t, []string{llamaServer(t, path).url}, "--model", path))
			})
		})
	}
}

func ownModelCoaches(t *testing.T, r *running) {
	r.expect(204, "", "PUT", session1, `{"backends": {"own": {"type": "local", "model": "own", "timeout": 300}}}`)
	resp := r.coach(coachingRequest(t, "own"))
	switch resp.Status {
	case protocol.CoachingCorrected:
		in := failedStep()
		in.ExtraKeys = fmt.Appendf(nil, `{"coaching": %s}`, resp.Proposals[0].ExtraKeys)
		correction, err := protocol.DecodeCorrection(resp.Proposals[0].ExtraKeys)
		if err != nil {
			t.Fatal(err)
		}
		decision := correction.Corrected()
		if got, want := answerOf(r.ask("again", in)[0]), string(decision.AppendJSON(nil)); got != want {
			t.Errorf("its correction gives %s, want %s", got, want)
		}
	case protocol.CoachingAbandoned: // as its random weights will have it on some machine
	default:
		t.Errorf("got %s", resp.AppendJSON(nil))
	}
	if len(resp.Logs) == 0 || !strings.Contains(resp.Logs[0].Content, "own") {
		t.Error("its log says nothing about the model")
	}
}

func TestCoachesAtDisallowedAddressesAreRefused(t *testing.T) {
	m := newFakeModel()
	r := startFake(t, ready(m), "--coaching-allow", "coach.example.org,127.0.0.1", "--coaching-allow", "10.0.0.0/8")
	r.health("ready")
	r.atOne(t, coachesWhereAllowed)
	for _, want := range []string{`"coaches_may_be_at":"coach.example.org, 127.0.0.1, 10.0.0.0/8"`, `"level":"warn","run_id":"run/1","status":422,"reason":"body.backends.b.endpoint: http://93.184.215.14/ names an address that the server's operator does not allow (--coaching-allow 93.184.215.14)"`} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, r.log)
		}
	}
	if strings.Contains(r.log.String(), coachKey) {
		t.Errorf("the log holds the key:\n%s", r.log)
	}
}

func coachesWhereAllowed(t *testing.T, r *running) {
	for endpoint, status := range map[string]int{
		"http://127.0.0.1:9/v1":             204,
		"https://coach.example.org":         204,
		"http://10.1.2.3:8080":              204,
		"https://other.example.org":         204, // may be in 10.0.0.0/8; dialing decides
		"http://[::ffff:169.254.169.254]/x": 422,
		"http://93.184.215.14/":             422,
	} {
		part := ""
		switch {
		case status == 422:
			part = `"loc":["body","backends","b","endpoint"]`
		case r.base == "/magma" && strings.Contains(endpoint, "//127.0.0.1"):
			r.expect(503, `\"b\": cannot reach the model`, "PUT", session1, llmSession("openai", endpoint))
			continue
		case r.base == "/magma":
			continue // a test call would leave this machine
		}
		r.expect(status, part, "PUT", session1, llmSession("openai", endpoint))
		if status == 204 {
			r.expect(204, "", "DELETE", session1, "")
		}
	}
}

// TestFullSessionRefusesFurtherRequests: one worker, and nobody waits.
func TestFullSessionRefusesFurtherRequests(t *testing.T) { atBase(t, fullSession) }

func fullSession(t *testing.T, base string) {
	c := newCoaches(t, `{"why": "no", "outcome": "abandoned"}`)
	c.hold = make(chan struct{})
	r := startFake(t, ready(newFakeModel()), "--coaching", "workers=1,queue=0,sessions=1").at(base)
	r.health("ready")
	r.expect(204, "", "PUT", session1, llmSession("openai", c.URL))
	r.expect(503, "", "PUT", "/v1/coaching/sessions/2", llmSession("openai", c.URL))
	first := r.later("/v1/coaching", coachingRequest(t, "c1"))
	wait(t, "the coach's question", c.arrived)
	status, header, _, err := exchangeHeader("POST", r.url+"/v1/coaching", coachingRequest(t, "c2"), nil)
	if err != nil || status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("got %d, Retry-After %q, %v", status, header.Get("Retry-After"), err)
	}
	close(c.hold)
	if got := wait(t, "the answer", first); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "abandoned") {
		t.Error(got)
	}
}

// startTask starts a server on which one request waits for a person, who holds the task.
func startTask(t *testing.T, base string, args ...string) (c *coaches, r *running, answer <-chan string) {
	t.Helper()
	c = newCoaches(t, "")
	c.hold = make(chan struct{})
	r = startFake(t, ready(newFakeModel()), args...).at(base)
	r.health("ready")
	r.expect(204, "", "PUT", session1, humanSession(c.URL))
	answer = r.later("/v1/coaching", coachingRequest(t, "c1"))
	wait(t, "the task", c.arrived)
	return c, r, answer
}

// TestDrainEndsTasksOfPeople: once its time is up, with 503; and the task
// is withdrawn.
func TestDrainEndsTasksOfPeople(t *testing.T) { atBase(t, drainEndsWaits) }

func drainEndsWaits(t *testing.T, base string) {
	c, r, answer := startTask(t, base, "--drain-timeout", "10ms")
	r.stop()
	if got := wait(t, "the answer", answer); !strings.HasPrefix(got, `503 {"detail":"the server is shutting down"}`) {
		t.Error(got)
	}
	if method := wait(t, "the withdrawal", c.arrived); method != http.MethodDelete {
		t.Errorf("the endpoint got a %s", method)
	}
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "--drain-timeout 10ms") || strings.Contains(r.log.String(), "stopped") {
		t.Errorf("run returned %v, and its log is\n%s", err, r.log.String())
	}
}

// TestSessionClosesDuringDrain: DELETE still works, and withdraws what
// the drain waits for.
func TestSessionClosesDuringDrain(t *testing.T) { atBase(t, closeWhileDraining) }

func closeWhileDraining(t *testing.T, base string) {
	c, r, answer := startTask(t, base)
	r.stop()
	r.health("draining")
	r.expect(503, "shutting down", "PUT", "/v1/coaching/sessions/2", humanSession(c.URL))
	r.expect(204, "", "DELETE", session1, "")
	if got := wait(t, "the answer", answer); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, `"status":"abandoned"`) {
		t.Error(got)
	}
	if err := r.end(); err != nil {
		t.Errorf("run returned %v", err)
	}
}
