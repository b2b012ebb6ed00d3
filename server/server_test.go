package server

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"agentd/protocol"
	"agentd/scheduler/generation"
)

// net/http sleeps half a second after it has answered too large headers.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// inferenceFunc is a fake Inference.
type inferenceFunc func(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error)

func (f inferenceFunc) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	return f(ctx, req)
}

// echo answers every candidate with its instruction.
func echo(_ context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	var outs []protocol.AgentOutput
	for _, in := range req.Inputs {
		for i := range in.NumOutputs {
			outs = append(outs, protocol.AgentOutput{
				RequestID:      req.RequestID,
				SourceID:       in.ID,
				CandidateIndex: i,
				Status:         "completed",
				Memory:         in.Memory,
				Output:         &protocol.AgentDecision{Say: in.Instruction.Content},
			})
		}
	}
	return outs, nil
}

const reason = "coaching is not built"

func testOptions() Options {
	return Options{
		Info: protocol.AgentInfo{
			ProtocolVersion:           protocol.Version,
			AgentID:                   "full-history-agent",
			AgentVersion:              "test",
			Capabilities:              map[string]bool{"inference": true, "coaching": false},
			CoachingResume:            true,
			CoachingUnavailableReason: reason,
		},
		Build: Build{Version: "1.2.3", Commit: "abc"},
		Log:   zerolog.Nop(),
	}
}

// newTest makes a server in the given state, deciding with decide.
func newTest(t *testing.T, state State, decide inferenceFunc, change ...func(*Options)) *Server {
	t.Helper()
	opts := testOptions()
	for _, f := range change {
		f(&opts)
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.newID = func() string { return "generated" }
	t.Cleanup(func() { s.Close() })
	if state != Loading {
		s.Ready(decide)
	}
	if state == Draining {
		if err := s.Drain(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// request is one HTTP exchange in a test.
type request struct {
	method, path, body string
	header             map[string]string
}

func (r request) do(t *testing.T, s *Server) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(r.method, r.path, strings.NewReader(r.body))
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	req.Host = cmp.Or(r.header["Host"], "localhost")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, req)
	return w
}

const validBody = `{"request_id": "r", "inputs": [{"id": 1, "instruction": {"type": "user", "content": "hi"}}]}`

// brokenInference is one whose devices failed.
type brokenInference struct {
	inferenceFunc
	failure error
}

func (b brokenInference) Failure() error { return b.failure }

func TestLivenessFailsOnlyWhereARestartHelps(t *testing.T) {
	for name, tc := range map[string]struct {
		state   State
		failure error
		health  int
		live    int
		body    string
	}{
		"loading":             {Loading, nil, 503, 200, `{"status":"loading"}`},
		"ready":               {Ready, nil, 200, 200, `{"status":"ready"}`},
		"draining":            {Draining, nil, 503, 200, `{"status":"draining"}`},
		"engines unreachable": {Ready, generation.ErrUnreachable, 503, 200, `{"status":"loading"}`},
		"devices lost":        {Ready, errors.New("no device is left"), 503, 503, `{"status":"failed"}`},
		"stuck":               {Ready, &generation.StuckError{Contexts: []int{0, 2}}, 503, 503, `{"status":"stuck: context 0, context 2"}`},
		"a load that hangs":   {Loading, &generation.StuckError{Loading: "CUDA0"}, 503, 503, `{"status":"stuck: first step on CUDA0"}`},
		"stuck in the drain":  {Draining, &generation.StuckError{Contexts: []int{0}}, 503, 200, `{"status":"draining"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTest(t, Loading, nil)
			var hang *generation.StuckError
			if errors.As(tc.failure, &hang) && tc.state == Loading {
				s.LoadHangs(hang)
			}
			if tc.state != Loading {
				s.Ready(brokenInference{echo, tc.failure})
			}
			if tc.state == Draining {
				if err := s.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for path, status := range map[string]int{"/health": tc.health, "/health?live": tc.live, "/magma/health?live=1": tc.live} {
				if w := (request{method: "GET", path: path}).do(t, s); w.Code != status || w.Body.String() != tc.body {
					t.Errorf("%s: %d, %s", path, w.Code, w.Body)
				}
			}
			if _, err := protocol.DecodeAgentHealth([]byte(tc.body)); err != nil {
				t.Error(err)
			}
			if w := (request{method: "POST", path: "/v1/responses", body: validBody}).do(t, s); tc.state == Ready && w.Code != http.StatusOK {
				t.Errorf("work: %d, %s", w.Code, w.Body) // the decider itself says what fails
			}
		})
	}
}

func TestLoadThatHungBecomesReady(t *testing.T) {
	s := newTest(t, Loading, nil)
	s.LoadHangs(&generation.StuckError{Loading: "CUDA0"})
	s.Ready(brokenInference{echo, nil})
	if w := (request{method: "GET", path: "/health"}).do(t, s); w.Body.String() != `{"status":"ready"}` {
		t.Errorf("%d, %s", w.Code, w.Body)
	}
}

// TestAnswers has a row for every rule about a status.
func TestAnswers(t *testing.T) {
	post := func(body string, header ...string) request {
		r := request{method: "POST", path: "/v1/responses", body: body, header: map[string]string{}}
		for i := 0; i < len(header); i += 2 {
			r.header[header[i]] = header[i+1]
		}
		return r
	}
	for name, test := range map[string]struct {
		state  State
		decide inferenceFunc
		req    request
		status int
		body   string            // part of the body
		header map[string]string // exact
	}{
		"health while loading":              {Loading, echo, request{method: "GET", path: "/health"}, 503, `{"status":"loading"}`, map[string]string{"Retry-After": "2"}},
		"health while draining":             {Draining, echo, request{method: "GET", path: "/health"}, 503, `{"status":"draining"}`, map[string]string{"Retry-After": "10"}},
		"info while loading":                {Loading, echo, request{method: "GET", path: "/v1/info"}, 200, `"agent_id":"full-history-agent"`, nil},
		"info while draining":               {Draining, echo, request{method: "GET", path: "/v1/info"}, 200, `"coaching_unavailable_reason":"` + reason + `"`, nil},
		"work while loading":                {Loading, echo, post(validBody), 503, `{"detail":"the model is still loading"}`, map[string]string{"Retry-After": "2"}},
		"work while draining":               {Draining, echo, post(validBody), 503, `{"detail":"the server is shutting down"}`, map[string]string{"Retry-After": "10"}},
		"a valid request":                   {Ready, echo, post(validBody), 200, `"say":"hi"`, map[string]string{"Content-Type": "application/json; charset=utf-8", "X-Content-Type-Options": "nosniff"}},
		"JSON in another letter case":       {Ready, echo, post(validBody, "Content-Type", "Application/JSON"), 200, `"say":"hi"`, nil},
		"a broken Content-Type":             {Ready, echo, post(validBody, "Content-Type", "application/json; ="), 415, `"detail"`, nil},
		"a relative of JSON":                {Ready, echo, post(validBody, "Content-Type", "application/json+x"), 415, `"detail"`, nil},
		"POST on a session":                 {Ready, echo, request{method: "POST", path: "/v1/coaching/sessions/x"}, 405, `"detail"`, map[string]string{"Allow": "PUT, DELETE"}},
		"the OpenAPI document":              {Loading, echo, request{method: "GET", path: "/openapi.json"}, 200, `"openapi"`, nil},
		"the metrics":                       {Loading, echo, request{method: "GET", path: "/metrics"}, 200, `agentd_state{state="loading"} 1`, nil},
		"a request id with odd characters":  {Ready, echo, request{method: "GET", path: "/health", header: map[string]string{"X-Request-Id": "a b"}}, 200, "", map[string]string{"X-Request-Id": "generated"}},
		"a request id that is too long":     {Ready, echo, request{method: "GET", path: "/health", header: map[string]string{"X-Request-Id": strings.Repeat("a", maxRequestID+1)}}, 200, "", map[string]string{"X-Request-Id": "generated"}},
		"problems that only the agent sees": {Ready, fails(protocol.Problems{protocol.NewProblem("value_error", "bad memory", "inputs", 0, "memory")}), post(validBody), 422, `"loc":["body","inputs",0,"memory"]`, nil},
		"a full queue":                      {Ready, fails(fmt.Errorf("around: %w", &generation.QueueFullError{Asked: 1, Admitted: 4, Limit: 4, RetryAfter: 2500 * time.Millisecond})), post(validBody), 503, `{"detail":"the queue is full (queue_limit): 4 of at most 4 candidates`, map[string]string{"Retry-After": "3"}},
		"a queue that is too slow":          {Ready, fails(&generation.QueueFullError{Asked: 1, Admitted: 4, Limit: 9, Late: true}), post(validBody), 503, `the queue is too slow (queue_time): 4 candidates`, nil},
		"work that made way":                {Ready, fails(&generation.QueueFullError{Asked: 2, MadeWay: true}), post(validBody), 503, `2 waiting candidates made way for a request of higher priority`, map[string]string{"Retry-After": "1"}},
		"an engine that closed":             {Ready, fails(fmt.Errorf("around: %w", generation.ErrClosed)), post(validBody), 503, `"detail"`, map[string]string{"Retry-After": "10"}},
		"an unexpected error stays inside":  {Ready, fails(errors.New("secret path")), post(validBody), 500, `{"detail":"internal error`, nil},
		"a panic stays inside":              {Ready, func(context.Context, *protocol.AgentRequest) ([]protocol.AgentOutput, error) { panic("secret") }, post(validBody), 500, `{"detail":"internal error`, nil},
		"an answer that lacks a candidate":  {Ready, func(context.Context, *protocol.AgentRequest) ([]protocol.AgentOutput, error) { return nil, nil }, post(validBody), 500, `{"detail":"internal error`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTest(t, test.state, test.decide)
			w := test.req.do(t, s)
			if w.Code != test.status {
				t.Errorf("status %d, want %d", w.Code, test.status)
			}
			if !strings.Contains(w.Body.String(), test.body) {
				t.Errorf("body %.300s lacks %s", w.Body, test.body)
			}
			if strings.Contains(w.Body.String(), "secret") {
				t.Errorf("body %s shows internals", w.Body)
			}
			if test.req.path != "/metrics" && !json.Valid(w.Body.Bytes()) {
				t.Errorf("body %s is no JSON", w.Body)
			}
			for k, want := range test.header {
				if got := w.Header().Get(k); got != want {
					t.Errorf("header %s is %q, want %q", k, got, want)
				}
			}
		})
	}
}

func fails(err error) inferenceFunc {
	return func(context.Context, *protocol.AgentRequest) ([]protocol.AgentOutput, error) { return nil, err }
}

func TestBodyLimit(t *testing.T) {
	decided := false
	s := newTest(t, Ready, func(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
		decided = true
		return echo(ctx, req)
	})
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(make([]byte, 1<<20))
	z.Close()
	bomb = *bytes.NewBuffer(bytes.Repeat(bomb.Bytes(), maxBody>>20+1)) // gzip files in a row are one
	for name, test := range map[string]struct {
		body     io.Reader
		declared int64
		encoding string
	}{
		"declared":         {strings.NewReader("{}"), maxBody + 1, ""},
		"undeclared":       {io.LimitReader(spaces{}, maxBody+1), -1, ""},
		"gzip that swells": {&bomb, int64(bomb.Len()), "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequest(http.MethodPost, "/v1/responses", test.body)
			req.ContentLength = test.declared
			req.Header.Set("Content-Encoding", test.encoding)
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, req)
			if w.Code != 413 || !strings.Contains(w.Body.String(), "67108864") {
				t.Errorf("got %d %.200s, want 413 that names the limit", w.Code, w.Body)
			}
		})
	}
	if decided {
		t.Error("work was done")
	}
}

func TestBodiesAreBoundedTogether(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	s := newTest(t, Ready, func(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
		if len(req.Inputs[0].Instruction.Content) > 100 {
			inside <- struct{}{}
			<-leave
		}
		return echo(ctx, req)
	})
	s.memory.SetLimit(4 << 20) // one request takes 3 MB while it is decoded, and 2 MB later
	post := request{method: "POST", path: "/v1/responses", body: strings.Replace(validBody, "hi", strings.Repeat("x", 1e6), 1)}
	small := request{method: "POST", path: "/v1/responses", body: validBody}
	first := make(chan int)
	go func() { first <- post.do(t, s).Code }()
	<-inside
	if w := post.do(t, s); w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "hold all memory") {
		t.Errorf("a second one: %d %s", w.Code, w.Body)
	}
	if w := small.do(t, s); w.Code != 200 {
		t.Errorf("a small one: %d %s", w.Code, w.Body)
	}
	leave <- struct{}{}
	if code := <-first; code != 200 {
		t.Errorf("the first one: %d", code)
	}
	go func() { <-inside; leave <- struct{}{} }()
	if w := post.do(t, s); w.Code != 200 {
		t.Errorf("one after them: %d %s", w.Code, w.Body)
	}
	if used := s.memory.Used(); used != 0 {
		t.Errorf("%d bytes are held when all have ended", used)
	}
}

// spaces is an endless body of whitespace.
type spaces struct{}

var blanks = bytes.Repeat([]byte(" "), 64<<10)

func (spaces) Read(p []byte) (int, error) { return copy(p, blanks), nil }

func TestGzip(t *testing.T) {
	long := strings.Repeat("long ", 1000)
	body := strings.Replace(validBody, "hi", long, 1)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, body)
	z.Close()

	for name, test := range map[string]struct {
		accept string
		body   string
		packed bool // the answer
	}{
		"asked for":             {"gzip", body, true},
		"asked for among other": {"br;q=1.0, GZIP;q=0.5", body, true},
		"any":                   {"*", body, true},
		"refused":               {"gzip;q=0", body, false},
		"any but refused":       {"*, gzip; q=0", body, false},
		"not asked for":         {"", body, false},
		"something else":        {"br", body, false},
		"a short answer":        {"gzip", validBody, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTest(t, Ready, echo)
			w := request{"POST", "/v1/responses", test.body, map[string]string{"Accept-Encoding": test.accept}}.do(t, s)
			var answer io.Reader = w.Body
			if w.Header().Get("Vary") != "Accept-Encoding" {
				t.Error("Vary is missing")
			}
			if got := w.Header().Get("Content-Encoding") == "gzip"; got != test.packed {
				t.Fatalf("packed: %v, want %v", got, test.packed)
			}
			if test.packed {
				var err error
				if answer, err = gzip.NewReader(w.Body); err != nil {
					t.Fatal(err)
				}
			}
			var outs []struct{ Output struct{ Say string } }
			if err := json.NewDecoder(answer).Decode(&outs); err != nil || len(outs) != 1 || outs[0].Output.Say == "" {
				t.Errorf("got %v, %v", outs, err)
			}
		})
	}
	for name, body := range map[string]string{
		"request cut in its end":    packed.String()[:packed.Len()-4],
		"request cut in its data":   packed.String()[:packed.Len()/2],
		"request cut in its header": packed.String()[:5],
		"request that is empty":     "",
		"request that is text":      body,
	} {
		t.Run(name, func(t *testing.T) {
			s := newTest(t, Ready, echo)
			w := request{"POST", "/v1/responses", body, map[string]string{"Content-Encoding": "gzip"}}.do(t, s)
			if w.Code != 415 || !strings.Contains(w.Body.String(), "not valid gzip") {
				t.Errorf("got %d %.100s, want 415", w.Code, w.Body)
			}
		})
	}
}
