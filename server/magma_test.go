package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"agentd/coaching"
	"agentd/protocol"
)

// TestOpenAPIDocumentHasBothBasePaths as its servers.
func TestOpenAPIDocumentHasBothBasePaths(t *testing.T) {
	var doc struct{ Servers []struct{ URL string } }
	if err := json.Unmarshal(protocol.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range doc.Servers {
		got = append(got, s.URL)
	}
	if want := []string{"/", pathMagma}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRoutesHaveTheSameHandlersAtBothBasePaths, so that a test at one of them is enough.
func TestRoutesHaveTheSameHandlersAtBothBasePaths(t *testing.T) {
	s := newTest(t, Ready, echo)
	handlers := map[string][]string{}
	for _, base := range []string{"", pathMagma} {
		for _, r := range s.router.Routes() {
			path, under := strings.CutPrefix(r.Path, pathMagma)
			if page := path == "/" || strings.HasPrefix(path, "/assets/"); under == (base != "") && !page {
				handlers[base] = append(handlers[base], r.Method+" "+path+" "+r.Handler)
			}
		}
		slices.Sort(handlers[base])
	}
	if !slices.Equal(handlers[""], handlers[pathMagma]) || len(handlers[""]) < 15 {
		t.Errorf("at the root %q, at %s %q", handlers[""], pathMagma, handlers[pathMagma])
	}
}

func TestMetricsDistinguishBasePaths(t *testing.T) {
	s := newTest(t, Ready, echo)
	request{method: "POST", path: "/magma/v1/responses", body: validBody}.do(t, s)
	page := request{method: "GET", path: "/metrics"}.do(t, s).Body.String()
	if want := `agentd_http_requests_total{method="POST",route="/magma/v1/responses",status="200"} 1`; !strings.Contains(page, want) {
		t.Errorf("the metrics lack %s", want)
	}
}

// TestRefusedSessionsAreLoggedWithReason, since clients do not show it.
func TestRefusedSessionsAreLoggedWithReason(t *testing.T) {
	session := func(members string) string {
		return `{"backends":{"b":{"type":"openai","endpoint":"http://u:SECRET@h/?k=SECRET","default_model":"m",` + members + `}}}`
	}
	const headers = `"headers":{"Authorization":"Bearer SECRET"}`
	forbidden := protocol.Problems{
		protocol.NewProblem(protocol.TypeValue, "names a private address, which only the server's operator can allow (--coaching-allow 10.0.0.1)", "backends", "b", "endpoint"),
		protocol.NewProblem(protocol.TypeValue, "header Host is set by the server itself; leave it out", "backends", "b", "headers", "Host"),
	}
	for name, test := range map[string]struct {
		state  State
		err    error // of the coach
		body   string
		change func(*Options)
		level  string   // "": warn
		log    []string // parts of the line
	}{
		"an address and a header": {err: forbidden, log: []string{`"status":422`, "body.backends.b.endpoint: names a private address", "(--coaching-allow 10.0.0.1); body.backends.b.headers.Host: header Host"}},
		"a body of another shape": {body: session(`"headers":{"Authorization":["SECRET"],"X\n":"SECRET","Y":"SECRET\n"},"timeout":"SECRET","SECRETS":0`),
			log: []string{`"status":422`, "body.backends.b.headers.Authorization: must be a string", "body.backends.b.timeout", "unknown field"}},
		"broken JSON":            {body: session(`"headers":{"Authorization":"Bearer SECRET"`), log: []string{`"status":422`}},
		"another configuration":  {err: coaching.ErrConflict, log: []string{`"status":409`, "another configuration"}},
		"too many sessions":      {err: &coaching.FullError{What: "there are 2 (coaching_sessions)"}, log: []string{`"status":503`, "coaching_sessions"}},
		"coaching that is off":   {change: func(o *Options) { *o = testOptions() }, log: []string{`"status":503`, reason}},
		"a server that loads":    {state: Loading, log: []string{`"status":503`, "still loading"}},
		"no token":               {change: func(o *Options) { o.Tokens = []string{"a-token"} }, level: "info", log: []string{`"status":401`, "bearer token"}},
		"backends that are dead": {err: &coaching.UnreachableError{Why: `"b": cannot reach the model`}, log: []string{`"status":503`, `\"b\": cannot reach the model`}},
	} {
		atBoth(t, name, func(t *testing.T, base string) {
			if test.state == 0 && name != "a server that loads" {
				test.state = Ready
			}
			if test.body == "" {
				test.body = session(headers)
			}
			var log bytes.Buffer
			s := newTest(t, test.state, echo, coached(&fakeCoach{err: test.err}), func(o *Options) {
				if test.change != nil {
					test.change(o)
				}
				o.Log = zerolog.New(&log)
			})
			w := request{method: "PUT", path: base + "/v1/coaching/sessions/run%2F7", body: test.body}.do(t, s)
			if w.Code < 400 {
				t.Fatalf("got %d", w.Code)
			}
			line, _, _ := strings.Cut(log.String(), "\n")
			for _, part := range append(test.log, `"level":"`+cmp.Or(test.level, "warn")+`"`, `"run_id":"run/7"`, `"message":"coaching session refused"`, `"request_id":"generated"`) {
				if !strings.Contains(line, part) {
					t.Errorf("the line lacks %s:\n%s", part, line)
				}
			}
			if strings.Contains(strings.ReplaceAll(log.String(), "SECRETS", ""), "SECRET") {
				t.Errorf("the log holds a secret:\n%s", &log)
			}
		})
	}
}

func TestOtherRefusalsAreNoWarnings(t *testing.T) {
	var log bytes.Buffer
	s := newTest(t, Ready, echo, coached(&fakeCoach{}), func(o *Options) { o.Log = zerolog.New(&log) })
	request{method: "PUT", path: sessionA, body: sessionBody}.do(t, s)
	request{method: "POST", path: "/v1/coaching", body: "{}"}.do(t, s)
	request{method: "POST", path: sessionA, body: "{}"}.do(t, s)
	if strings.Contains(log.String(), `"level":"warn"`) {
		t.Errorf("got\n%s", &log)
	}
}

func TestRefusedCoachingIsLoggedWithReason(t *testing.T) {
	full := &coaching.FullError{What: "there are 3 coaching requests, the maximum"}
	for _, test := range []struct {
		name, body string
		err        error
		want       []string
	}{
		{"no session", coachingBody, coaching.ErrUnknown, []string{`"run_id":"a","kind":"failure","status":404,"reason":"`}},
		{"full", coachingBody, full, []string{`"run_id":"a","kind":"failure","status":503,"reason":"` + full.What + `"`}},
		{"store down", coachingBody, &coaching.StoreError{Err: errors.New("refused")}, []string{`"status":503,"reason":"the store`}},
		{"bad body", "{}", nil, []string{`"run_id":"","status":422,"reason":"`, "body.run_id", `"request_id":"`}},
		{"not JSON", "{", nil, []string{`"status":422`}},
	} {
		atBoth(t, test.name, func(t *testing.T, base string) {
			var log bytes.Buffer
			s := newTest(t, Ready, echo, coached(&fakeCoach{err: test.err}), func(o *Options) { o.Log = zerolog.New(&log) })
			request{method: "POST", path: base + "/v1/coaching", body: test.body}.do(t, s)
			var line string
			for _, l := range strings.Split(log.String(), "\n") {
				if strings.Contains(l, `"message":"coaching refused"`) {
					line += l
				}
			}
			for _, part := range append(test.want, `"level":"info"`) {
				if strings.Count(line, part) != 1 {
					t.Errorf("want %s once in %q; the log is\n%s", part, line, &log)
				}
			}
		})
	}
}
