package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"agentd/protocol"
)

func TestTokens(t *testing.T) {
	s := newTest(t, Ready, echo, func(o *Options) { o.Tokens = []string{"first-token", "second-token"} })
	for name, test := range map[string]struct {
		path, header string
		status       int
	}{
		"second, other case":                   {"/v1/info", "bearer second-token", 200},
		"part of one":                          {"/v1/info", "Bearer first", 401},
		"more than one":                        {"/v1/info", "Bearer first-token second-token", 401},
		"empty":                                {"/v1/info", "Bearer ", 401},
		"other scheme":                         {"/v1/info", "Basic first-token", 401},
		"without scheme":                       {"/v1/info", "first-token", 401},
		"metrics are not open":                 {"/metrics", "", 401},
		"for MAGMA, metrics are not open":      {"/magma/metrics", "", 401},
		"two bases are none":                   {"/magma/magma/health", "", 401},
		"unknown paths do not show themselves": {"/secret", "", 401},
	} {
		t.Run(name, func(t *testing.T) {
			w := request{method: "GET", path: test.path, header: map[string]string{"Authorization": test.header}}.do(t, s)
			if w.Code != test.status {
				t.Errorf("status %d, want %d", w.Code, test.status)
			}
			if challenge := w.Header().Get("WWW-Authenticate"); (challenge != "") != (test.status == 401) {
				t.Errorf("WWW-Authenticate is %q with status %d", challenge, w.Code)
			}
			if unknown := strings.Contains(w.Body.String(), "no token that this server knows"); unknown != (test.status == 401 && test.header != "") {
				t.Errorf("the header %q gets %s", test.header, w.Body)
			}
		})
	}
}

func TestNamedTokensAreLoggedAndCounted(t *testing.T) {
	var log bytes.Buffer
	s := newTest(t, Ready, echo, func(o *Options) {
		o.Log = zerolog.New(&log)
		o.Tokens = []string{"fleet-old", "fleet-new", "plain-token"}
		o.Clients = map[string]string{"fleet-old": "fleet", "fleet-new": "fleet"}
	})
	for token, n := range map[string]int{"fleet-old": 1, "fleet-new": 2, "plain-token": 3, "fleet": 4} {
		for range n {
			request{"POST", "/v1/responses", validBody, map[string]string{"Authorization": "Bearer " + token}}.do(t, s)
		}
	}
	page := request{method: "GET", path: "/metrics", header: map[string]string{"Authorization": "Bearer plain-token"}}.do(t, s).Body.String()
	for _, line := range []string{
		`agentd_client_requests_total{client="fleet",status="200"} 3`,
		`agentd_client_candidates_total{client="fleet",status="completed"} 3`,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	if n := strings.Count(page, `client="`); n != 2 {
		t.Errorf("%d series have a client", n)
	}
	if n := strings.Count(log.String(), `"client":"fleet"`); n != 3 || strings.Contains(log.String(), `"client":""`) {
		t.Errorf("%d log lines have the client:\n%s", n, &log)
	}
}

// ourPage is a request of our own page, as a browser sends it.
func ourPage(host, origin string) request {
	return request{method: "POST", path: "/v1/responses", body: validBody, header: map[string]string{"Host": host, "Origin": origin, "Sec-Fetch-Site": "same-origin"}}
}

// otherPage is a request of a page of another port of this machine.
func otherPage(host, origin string) request {
	r := ourPage(host, origin)
	r.header["Sec-Fetch-Site"] = "same-site"
	return r
}

func TestBrowserPagesNeedTokens(t *testing.T) {
	open := newTest(t, Ready, echo)
	closed := newTest(t, Ready, echo, func(o *Options) { o.Tokens = []string{"a-token"} })
	for name, test := range map[string]struct {
		s      *Server
		r      request
		status int
	}{
		"a page under a borrowed name": {open, request{method: "PUT", path: "/v1/coaching/sessions/r", body: "{}", header: map[string]string{"Sec-Fetch-Site": "same-origin"}}, 403},
		"a page that closes a session": {open, request{method: "DELETE", path: "/v1/coaching/sessions/r", header: map[string]string{"Origin": "null"}}, 403},
		"our page":                     {open, ourPage("127.0.0.1:8888", "http://127.0.0.1:8888"), 200},
		"our page under a name":        {open, ourPage("localhost:8888", "http://localhost:8888"), 200},
		"our page on another machine":  {open, ourPage("robot:8888", "http://robot:8888"), 403},
		"our page behind a proxy":      {open, ourPage("127.0.0.1:8888", "http://localhost:3000"), 200},
		"a page of another port":       {open, otherPage("127.0.0.1:8888", "http://127.0.0.1:3000"), 403},
		"a name behind a proxy":        {open, ourPage("127.0.0.1:8888", "http://evil.example"), 403},
		"a name that resolves to us":   {open, ourPage("evil.example:8888", "http://evil.example:8888"), 403},
		"our page without a token":     {closed, ourPage("127.0.0.1:8888", "http://127.0.0.1:8888"), 401},
		"the page itself":              {closed, request{method: "GET", path: "/", header: map[string]string{"Accept": "text/html,*/*"}}, 200},
		"a file of the page":           {closed, request{method: "GET", path: "/assets/page.js"}, 200},
		"a file that is not there":     {closed, request{method: "GET", path: "/assets/page.go"}, 404},
		"a program at the root":        {open, request{method: "GET", path: "/"}, 404},
		"a page that looks":            {open, request{method: "GET", path: "/v1/info", header: map[string]string{"Sec-Fetch-Site": "none"}}, 200},
		"a page that knows a token":    {closed, request{method: "POST", path: "/v1/responses", body: validBody, header: map[string]string{"Origin": "http://ours", "Authorization": "Bearer a-token"}}, 200},
		"a page that knows none":       {closed, request{method: "POST", path: "/v1/responses", body: validBody, header: map[string]string{"Origin": "http://ours"}}, 401},
	} {
		w := test.r.do(t, test.s)
		if w.Code != test.status || w.Code == 403 && !strings.Contains(w.Body.String(), "on one origin") {
			t.Errorf("%s: status %d, want %d: %s", name, w.Code, test.status, w.Body)
		}
	}
}

func TestHealthIsOpenForAnyMethod(t *testing.T) {
	s := newTest(t, Ready, echo, func(o *Options) { o.Tokens = []string{"a-token"} })
	if w := (request{method: "POST", path: "/health"}).do(t, s); w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("status %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

// TestLogHasNoSecrets sends secrets in every place that a client can fill.
func TestLogHasNoSecrets(t *testing.T) {
	var log bytes.Buffer
	s := newTest(t, Ready, echo, func(o *Options) {
		o.Log = zerolog.New(&log)
		o.Tokens = []string{"SECRET-token"}
	})
	body := strings.Replace(validBody, "hi", "SECRET-body", 1)
	for _, r := range []request{
		{"POST", "/v1/responses?key=SECRET-query", body, map[string]string{"Authorization": "Bearer SECRET-token", "X-Other": "SECRET-header"}},
		{"POST", "/v1/responses", `{"SECRET-field": 1}`, map[string]string{"Authorization": "Bearer SECRET-token"}},
		{"POST", "/v1/responses", body, map[string]string{"Authorization": "Bearer SECRET-wrong"}},
		{"GET", "/SECRET-path", "", nil},
		{"SECRET-METHOD", "/health", "", nil},
	} {
		r.do(t, s)
	}
	if strings.Contains(log.String(), "SECRET") {
		t.Errorf("the log holds a secret:\n%s", &log)
	}
	for _, part := range []string{`"method":"POST"`, `"route":"/v1/responses"`, `"status":200`, `"status":422`, `"status":401`, `"duration_ms"`, `"bytes"`, `"request_id":"generated"`, `"route":"unmatched"`, `"method":"OTHER"`} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log lacks %s:\n%s", part, &log)
		}
	}
}

func TestMetricsCount(t *testing.T) {
	s := newTest(t, Ready, func(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
		outs, _ := echo(ctx, req)
		last := &outs[len(outs)-1]
		last.Status, last.Output, last.Error = "error", nil, &protocol.AgentError{Code: "truncated", Message: "m"}
		return outs, nil
	})
	body := strings.Replace(validBody, `"id": 1,`, `"id": 1, "num_outputs": 3,`, 1)
	request{"POST", "/v1/responses", body, nil}.do(t, s)
	request{"POST", "/v1/responses", "{", nil}.do(t, s)
	page := request{method: "GET", path: "/metrics"}.do(t, s).Body.String()
	for _, line := range []string{
		`agentd_http_requests_total{method="POST",route="/v1/responses",status="200"} 1`,
		`agentd_http_requests_total{method="POST",route="/v1/responses",status="422"} 1`,
		`agentd_http_request_duration_seconds_count{method="POST",route="/v1/responses"} 2`,
		`agentd_candidates_total{code="",status="completed"} 2`,
		`agentd_candidates_total{code="truncated",status="error"} 1`,
		`agentd_state{state="ready"} 1`,
		`agentd_build_info{commit="abc",go="` + runtime.Version() + `",version="1.2.3"} 1`,
		`agentd_panics_total 0`,
		`go_goroutines `,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

// TestPanicFailsOnlyItsRequest panics in some of many requests at once.
func TestPanicFailsOnlyItsRequest(t *testing.T) {
	s := newTest(t, Ready, func(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
		if req.Inputs[0].ID%2 == 1 {
			panic("odd")
		}
		return echo(ctx, req)
	})
	var wg sync.WaitGroup
	for id := range 32 {
		wg.Go(func() {
			body := strings.Replace(validBody, `"id": 1`, fmt.Sprintf(`"id": %d`, id), 1)
			want := http.StatusOK
			if id%2 == 1 {
				want = http.StatusInternalServerError
			}
			if w := (request{"POST", "/v1/responses", body, nil}).do(t, s); w.Code != want {
				t.Errorf("input %d: status %d, want %d", id, w.Code, want)
			}
		})
	}
	wg.Wait()
	if n := s.InFlight(); n != 0 {
		t.Errorf("%d requests still count as in flight", n)
	}
	if n := s.memory.Used(); n != 0 {
		t.Errorf("%d bytes of requests that ended are still held", n)
	}
}

// deadlines notes the write deadlines that are set.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

func TestWriteDeadlineHoldsOnlyDuringAnswers(t *testing.T) {
	s := newTest(t, Ready, nil)
	for _, path := range []string{"/metrics", "/health", "/openapi.json"} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || len(w.set) < 2 || !w.set[0].After(time.Now()) || !w.set[len(w.set)-1].IsZero() {
			t.Errorf("%s: %d, deadlines %v", path, w.Code, w.set)
		}
	}
}
