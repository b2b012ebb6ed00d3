// Package scriptedtest is an HTTP endpoint for tests that answers by a script.
package scriptedtest

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Server answers each request with the next step of its script. The last step repeats.
type Server struct {
	*httptest.Server
	mu    sync.Mutex
	steps []http.HandlerFunc
	calls []Call
}

// Call is a request that a server got.
type Call struct {
	Method, Target string
	Header         http.Header
	Body           string
}

// String returns method, target and body on one line.
func (c Call) String() string { return c.Method + " " + c.Target + " " + c.Body }

// JSON returns the body as a JSON object.
func (c Call) JSON(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(c.Body), &v); err != nil {
		t.Fatalf("the request's body is not JSON: %v\n%s", err, c.Body)
	}
	return v
}

// New starts a server. It is closed at the end of the test.
func New(t testing.TB, steps ...http.HandlerFunc) *Server {
	t.Helper()
	s := newServer(t, steps)
	s.Start()
	return s
}

// NewTLS starts a server with HTTPS.
func NewTLS(t testing.TB, steps ...http.HandlerFunc) *Server {
	t.Helper()
	s := newServer(t, steps)
	s.StartTLS()
	return s
}

func newServer(t testing.TB, steps []http.HandlerFunc) *Server {
	s := &Server{steps: steps}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP runs the next step. The step may read the body again.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what a client that left did not send is missing in Calls
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	step := s.steps[min(len(s.calls), len(s.steps)-1)]
	s.calls = append(s.calls, Call{r.Method, r.RequestURI, r.Header.Clone(), string(body)})
	s.mu.Unlock()
	step(w, r)
}

// Script replaces the script, before the first request.
func (s *Server) Script(steps ...http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = steps
}

// Calls returns the requests so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Lines returns the requests so far as Call.String.
func (s *Server) Lines() (lines []string) {
	for _, c := range s.Calls() {
		lines = append(lines, c.String())
	}
	return lines
}

// Asked returns the number of requests so far.
func (s *Server) Asked() int64 { return int64(len(s.Calls())) }

// Answer returns a step that answers with a status, a body, and headers (name, value, ...).
func Answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Reset is a step that breaks the connection without an answer.
func Reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // closing sends RST
	}
	_ = conn.Close()
}
