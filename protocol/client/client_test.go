package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server with one handler and returns a client of it.
func serve(t *testing.T, h http.HandlerFunc, opts ...Option) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(s.URL, append([]Option{WithHTTPClient(s.Client())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answer is a handler that answers everything alike.
func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func request() *protocol.AgentRequest {
	return &protocol.AgentRequest{RequestID: "r", Inputs: []protocol.AgentInput{{
		ID: 7, Instruction: protocol.AgentInstruction{Type: "user", Content: "x"}, Memory: protocol.Raw(`{"a":1.0}`), NumOutputs: 2,
	}}}
}

func coachingRequest() *protocol.SpecializedCoachingRequest {
	step := int64(1)
	return &protocol.SpecializedCoachingRequest{RunID: "run", RequestID: "c", Kind: protocol.CoachingFailure, TargetStepID: 1,
		Trajectory:        []protocol.TrajectoryStep{{ID: 1, Input: request().Inputs[0]}},
		ReinjectionPoints: []protocol.ReinjectionPoint{{ID: "p", InputStepID: &step}}}
}

func TestCallsReachTheirEndpoints(t *testing.T) {
	var got []string
	mux := http.NewServeMux()
	handle := func(pattern string, h func(w http.ResponseWriter, body []byte)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			got = append(got, r.Method+" "+r.URL.EscapedPath()+" "+r.Header.Get("Content-Type"))
			if r.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("%s carries Authorization %q", r.URL, r.Header.Get("Authorization"))
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			h(w, body)
		})
	}
	handle("GET /base/health", func(w http.ResponseWriter, _ []byte) { _, _ = io.WriteString(w, `{"status":"ready"}`) })
	handle("GET /base/v1/info", func(w http.ResponseWriter, _ []byte) {
		_, _ = io.WriteString(w, `{"agent_id":"a","agent_version":"1","capabilities":{"inference":true}}`)
	})
	handle("POST /base/v1/responses", func(w http.ResponseWriter, body []byte) {
		req, err := protocol.DecodeAgentRequest(body)
		if err != nil {
			t.Error(err)
			return
		}
		var outs []protocol.AgentOutput
		for i := range req.Inputs[0].NumOutputs {
			outs = append(outs, protocol.AgentOutput{RequestID: req.RequestID, SourceID: 7, CandidateIndex: i, Status: "completed",
				Memory: req.Inputs[0].Memory, Output: &protocol.AgentDecision{Say: "y"}})
		}
		_, _ = w.Write(protocol.AgentOutputs(outs).AppendJSON(nil))
	})
	handle("PUT /base/v1/coaching/sessions/{run}", func(w http.ResponseWriter, body []byte) {
		if _, err := protocol.DecodeCoachingSessionConfig(body); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	handle("DELETE /base/v1/coaching/sessions/{run}", func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusNoContent) })
	handle("POST /base/v1/coaching", func(w http.ResponseWriter, body []byte) {
		req, err := protocol.DecodeSpecializedCoachingRequest(body)
		if err != nil {
			t.Error(err)
			return
		}
		res := protocol.SpecializedCoachingResponse{RequestID: req.RequestID, Status: protocol.CoachingAbandoned, Reason: "no"}
		_, _ = w.Write(res.AppendJSON(nil))
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	c, err := New(s.URL+"/base/", WithHTTPClient(s.Client()), WithBearerToken("secret"))
	if err != nil {
		t.Fatal(err)
	}

	ctx := t.Context()
	if h, err := c.Health(ctx); err != nil || h.Status != protocol.HealthReady {
		t.Errorf("Health: %+v, %v", h, err)
	}
	if info, err := c.Info(ctx); err != nil || !info.Capabilities["inference"] {
		t.Errorf("Info: %+v, %v", info, err)
	}
	if outs, err := c.Responses(ctx, request()); err != nil || len(outs) != 2 || string(outs[1].Memory) != `{"a":1.0}` {
		t.Errorf("Responses: %+v, %v", outs, err)
	}
	cfg := protocol.NewCoachingSessionConfig()
	backend := protocol.NewCoachingBackend("b", protocol.BackendLocal)
	backend.DefaultModel = "m"
	cfg.Backends = append(cfg.Backends, backend)
	if err := c.PutCoachingSession(ctx, "run/1 é", cfg); err != nil {
		t.Error(err)
	}
	if res, err := c.Coach(ctx, coachingRequest()); err != nil || res.Reason != "no" {
		t.Errorf("Coach: %+v, %v", res, err)
	}
	if err := c.DeleteCoachingSession(ctx, "run/1 é"); err != nil {
		t.Error(err)
	}
	want := []string{
		"GET /base/health ", "GET /base/v1/info ", "POST /base/v1/responses application/json",
		"PUT /base/v1/coaching/sessions/run%2F1%20%C3%A9 application/json", "POST /base/v1/coaching application/json",
		"DELETE /base/v1/coaching/sessions/run%2F1%20%C3%A9 ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHealthReportsServerThatIsNotReady(t *testing.T) {
	c := serve(t, answer(http.StatusServiceUnavailable, `{"status":"loading"}`))
	h, err := c.Health(t.Context())
	if err != nil || h.Status != protocol.HealthLoading {
		t.Errorf("got %+v, %v", h, err)
	}
	c = serve(t, answer(http.StatusServiceUnavailable, `<html>bad gateway</html>`))
	if _, err := c.Health(t.Context()); !IsStatus(err, http.StatusServiceUnavailable) {
		t.Errorf("a proxy's page gives %v", err)
	}
}

func TestErrorsHaveTheServersDetail(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   Error
	}{
		{"problems", 422, string(protocol.Problems{protocol.NewProblem("missing", "m", "inputs", 0, "id")}.AppendBody(nil)),
			Error{Problems: protocol.Problems{{Type: "missing", Loc: []any{"body", "inputs", 0, "id"}, Msg: "m"}}}},
		{"problems of another server", 422, `{"detail":[{"type":"t","loc":["body",3],"msg":"m","input":{},"url":"u"}]}`,
			Error{Problems: protocol.Problems{{Type: "t", Loc: []any{"body", 3}, Msg: "m"}}}},
		{"a sentence", 409, string(protocol.AppendErrorBody(nil, "another configuration")), Error{Detail: "another configuration"}},
		{"a text", 502, " page \xff ", Error{Detail: "page \uFFFD"}},
		{"a long page", 500, strings.Repeat("x", 5000), Error{Detail: strings.Repeat("x", 512) + "…"}},
		{"nothing", 401, "", Error{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := serve(t, answer(c.status, c.body)).Responses(t.Context(), request())
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("error is %v", err)
			}
			c.want.Status = c.status
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Error(diff)
			}
			if !IsStatus(err, c.status) || IsStatus(err, 200) || !strings.Contains(err.Error(), http.StatusText(c.status)) {
				t.Errorf("error %q does not tell its status", err)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		answer(http.StatusServiceUnavailable, `{"detail":"the queue is full"}`)(w, nil)
	})
	_, err := c.Responses(t.Context(), request())
	var e *Error
	if !errors.As(err, &e) || e.RetryAfter != 7*time.Second || e.Detail != "the queue is full" {
		t.Errorf("error is %+v", err)
	}
}

func TestInvalidAnswersAreErrors(t *testing.T) {
	output := func(source, index int) map[string]any {
		return map[string]any{"request_id": "r", "source_id": source, "candidate_index": index, "status": "completed", "memory": map[string]any{}, "output": map[string]any{}}
	}
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct{ name, body, says string }{
		{"not JSON", `{`, "breaks the contract"},
		{"another type", `{}`, "breaks the contract"},
		{"a candidate missing", encode([]any{output(7, 0)}), "does not answer the request"},
		{"of another input", encode([]any{output(7, 0), output(8, 1)}), "does not answer the request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := serve(t, answer(200, c.body)).Responses(t.Context(), request())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v, want one that says %q", err, c.says)
			}
			var ps protocol.Problems
			if !errors.As(err, &ps) {
				t.Errorf("error %v has no problems", err)
			}
		})
	}
	if _, err := serve(t, answer(200, encode([]any{output(7, 0), output(7, 1)}))).Responses(t.Context(), request()); err != nil {
		t.Errorf("a good answer: %v", err)
	}
	bad := `{"request_id":"c","status":"corrected","proposals":[{"reinjection_point_id":"q","extra_keys":{}}]}`
	if _, err := serve(t, answer(200, bad)).Coach(t.Context(), coachingRequest()); err == nil || !strings.Contains(err.Error(), "does not answer the request") {
		t.Errorf("an unknown reinjection point: %v", err)
	}
	if _, err := serve(t, answer(200, `{}`)).Coach(t.Context(), coachingRequest()); err == nil || !strings.Contains(err.Error(), "breaks the contract") {
		t.Errorf("a coaching answer without fields: %v", err)
	}
	if _, err := serve(t, answer(200, `{"status":"ok"}`)).Health(t.Context()); err == nil {
		t.Error("an unknown health is accepted")
	}
	if err := serve(t, answer(200, ``)).DeleteCoachingSession(t.Context(), "r"); !IsStatus(err, 200) {
		t.Errorf("an unexpected success status gives %v", err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	c := serve(t, answer(200, strings.Repeat(" ", 100)))
	c.maxResponse = 99
	if _, err := c.Info(t.Context()); err == nil || !strings.Contains(err.Error(), "larger than 99 bytes") {
		t.Errorf("error is %v", err)
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	arrived := make(chan struct{})
	c := serve(t, func(http.ResponseWriter, *http.Request) { close(arrived); <-release })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := c.Responses(ctx, request())
		done <- err
	}()
	<-arrived
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestNewRejectsOtherURLsWithoutTheirPasswords(t *testing.T) {
	for _, u := range []string{
		"", "localhost:8888", "ftp://h", "http://", "http://h\x7f", "http://h/?a=b", "http://h/#x", "http://u:SECRET/SECRET@h", "http://u:SECRET@h:SECRET",
		"http://u:SECRET@SECRET/SECRET@h", "http://u:12/SECRET@h", "http://u:SECRET@h?SECRET", "ftp://u:SECRET@h",
	} {
		if _, err := New(u); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("New(%q): %v", u, err)
		}
	}
}
