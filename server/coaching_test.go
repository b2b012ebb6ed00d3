package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"agentd/coaching"
	"agentd/internal/base/waittest"
	"agentd/protocol"
)

// fakeCoach answers as it is set up and remembers the runs it was asked about.
type fakeCoach struct {
	err   error // of every call
	coach func(ctx context.Context, req *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error)

	mu    sync.Mutex
	calls []string
}

func (f *fakeCoach) note(call, runID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call+" "+runID)
	return f.err
}

func (f *fakeCoach) Configure(_ context.Context, runID string, _ *protocol.CoachingSessionConfig) error {
	return f.note("configure", runID)
}

func (f *fakeCoach) ConfigureReachable(_ context.Context, runID string, _ *protocol.CoachingSessionConfig) error {
	return f.note("configure reachable", runID)
}

func (f *fakeCoach) CloseSession(_ context.Context, runID string) error {
	return f.note("close", runID)
}

func (f *fakeCoach) Coach(ctx context.Context, req *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error) {
	if err := f.note("coach", req.RunID); err != nil {
		return nil, err
	}
	if f.coach != nil {
		return f.coach(ctx, req)
	}
	return abandoned(req), nil
}

func abandoned(req *protocol.SpecializedCoachingRequest) *protocol.SpecializedCoachingResponse {
	return &protocol.SpecializedCoachingResponse{RequestID: req.RequestID, Status: protocol.CoachingAbandoned, Reason: "no idea"}
}

// coached gives a server a coach, and advertises it.
func coached(f Coach) func(*Options) {
	return func(o *Options) {
		o.Coach = f
		o.Info.Capabilities = map[string]bool{"inference": true, "coaching": true}
		o.Info.SpecializedCoaching = protocol.CoachingKinds()
		o.Info.CoachingSessionVersion = protocol.CoachingSessionVersion
		o.Info.CoachingUnavailableReason = ""
	}
}

const (
	sessionBody  = `{"provider": "human", "endpoint": "http://127.0.0.1:1"}`
	coachingBody = `{"run_id": "a", "request_id": "b", "kind": "failure", "stage": {"id": 1, "goal": "g"}, "target_step_id": 1,
		"trajectory": [{"id": 1, "input": {"id": 1, "instruction": {"type": "user", "content": "x"}}}], "reinjection_points": []}`
	sessionA = "/v1/coaching/sessions/a"
)

// atBoth runs a test at both base paths.
func atBoth(t *testing.T, name string, f func(t *testing.T, base string)) {
	t.Run(name, func(t *testing.T) { f(t, "") })
	t.Run(name+", under "+pathMagma, func(t *testing.T) { f(t, pathMagma) })
}

// TestCoachingAnswers has a row for every rule about a status.
func TestCoachingAnswers(t *testing.T) {
	put := func(path, body string) request { return request{method: "PUT", path: path, body: body} }
	post := func(body string) request { return request{method: "POST", path: "/v1/coaching", body: body} }
	remove := func(path string) request { return request{method: "DELETE", path: path} }
	forbidden := protocol.Problems{protocol.NewProblem(protocol.TypeValue, "may not be reached", "endpoint")}
	full := &coaching.FullError{What: "the session's queue is full", RetryAfter: 2500 * time.Millisecond}
	for name, test := range map[string]struct {
		state  State
		err    error // of the coach
		req    request
		status int
		body   string // part of the body
		retry  string
		call   string // what reached the coach; "" for nothing
	}{
		"a session with a bad body":       {Ready, coaching.ErrConflict, put(sessionA, `{}`), 422, `"loc":["body","backends"]`, "", ""},
		"a trajectory that is too long":   {Ready, forbidden, post(coachingBody), 422, `"loc":["body"`, "", "coach a"},
		"the end of no session":           {Ready, coaching.ErrUnknown, remove(sessionA), 404, "no coaching session", "", "close a"},
		"a request to a closing session":  {Ready, fmt.Errorf("it is closing%.0w", coaching.ErrUnknown), post(coachingBody), 404, `{"detail":"it is closing"}`, "", "coach a"},
		"too many sessions":               {Ready, full, put(sessionA, sessionBody), 503, "queue is full", "3", "configure a"},
		"a full queue":                    {Ready, full, post(coachingBody), 503, `{"detail":"the session's queue is full"}`, "3", "coach a"},
		"a service that was closed":       {Ready, coaching.ErrShutdown, post(coachingBody), 503, "shutting down", "10", "coach a"},
		"a store that fails stays inside": {Ready, errors.New("secret path"), put(sessionA, sessionBody), 500, "internal error", "", "configure a"},
		"a session while loading":         {Loading, nil, put(sessionA, sessionBody), 503, "loading", "2", ""},
		"a request while loading":         {Loading, nil, post(coachingBody), 503, "loading", "2", ""},
		"a session while draining":        {Draining, nil, put(sessionA, sessionBody), 503, "shutting down", "10", ""},
		"a request while draining":        {Draining, nil, post(coachingBody), 503, "shutting down", "10", ""},
		"the end of one while loading":    {Loading, nil, remove(sessionA), 204, "", "", "close a"},
		"the end of one while draining":   {Draining, nil, remove(sessionA), 204, "", "", "close a"},
		"a path below a run_id":           {Ready, nil, remove(sessionA + "/b"), 404, "no such path", "", ""},
	} {
		atBoth(t, name, func(t *testing.T, base string) {
			if base == pathMagma {
				test.call = strings.Replace(test.call, "configure", "configure reachable", 1)
				if errors.Is(test.err, coaching.ErrUnknown) && test.req.method == "DELETE" {
					test.status, test.body = 204, "" // its clients close what they failed to configure
				}
			}
			f := &fakeCoach{err: test.err}
			test.req.path = base + test.req.path
			w := test.req.do(t, newTest(t, test.state, echo, coached(f)))
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.body) || strings.Contains(w.Body.String(), "secret") {
				t.Errorf("got %d %.300s, want %d with %s", w.Code, w.Body, test.status, test.body)
			}
			if w.Code == 204 && w.Body.Len() > 0 {
				t.Errorf("204 with the body %s", w.Body)
			}
			if got := w.Header().Get("Retry-After"); got != test.retry {
				t.Errorf("Retry-After is %q, want %q", got, test.retry)
			}
			if got := strings.Join(f.calls, ", "); got != test.call {
				t.Errorf("the coach was asked %q, want %q", got, test.call)
			}
		})
	}
}

func TestPathAndBodyProblemsAreReportedTogether(t *testing.T) {
	w := request{method: "PUT", path: "/v1/coaching/sessions/%FF", body: `{}`}.do(t, newTest(t, Ready, echo, coached(&fakeCoach{})))
	for _, loc := range []string{`["path","run_id"]`, `["body","backends"]`} {
		if !strings.Contains(w.Body.String(), loc) {
			t.Errorf("%s lacks %s", w.Body, loc)
		}
	}
}

func TestCoachingResponsesAreChecked(t *testing.T) {
	f := &fakeCoach{coach: func(context.Context, *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error) {
		return &protocol.SpecializedCoachingResponse{RequestID: "other", Status: protocol.CoachingCorrected}, nil
	}}
	w := request{method: "POST", path: "/v1/coaching", body: coachingBody}.do(t, newTest(t, Ready, echo, coached(f)))
	if w.Code != 500 || !strings.Contains(w.Body.String(), "internal error") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestInfoAndCoachMustAgree(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"a session version without coaching": func(o *Options) { o.Info.CoachingSessionVersion = "1" },
		"a coach that is not advertised":     func(o *Options) { o.Coach = &fakeCoach{} },
		"no coach for what is": func(o *Options) {
			coached(&fakeCoach{})(o)
			o.Coach = nil
		},
	} {
		opts := testOptions()
		change(&opts)
		if _, err := New(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// waiting is a coach that waits.
type waiting struct {
	*fakeCoach
	*slow
}

func newWaiting() *waiting {
	d := newSlow()
	return &waiting{&fakeCoach{coach: func(ctx context.Context, req *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error) {
		return abandoned(req), d.wait(ctx)
	}}, d}
}

// TestCoachingHasNoRequestTimeout: the request timeout is for candidates.
func TestCoachingHasNoRequestTimeout(t *testing.T) {
	w := newWaiting()
	ls := listen(t, coached(w), func(o *Options) { o.RequestTimeout = time.Nanosecond })
	ls.Ready(inferenceFunc(echo))
	answer := ls.send(t, http.MethodPost, "/v1/coaching", coachingBody)
	wait(t, "the coaching's start", w.started)
	close(w.release)
	if got := wait(t, "the answer", answer); !strings.HasPrefix(got, "200 ") {
		t.Error(got)
	}
	if err := wait(t, "the coaching's end", w.ended); err != nil {
		t.Errorf("its context ended: %v", err)
	}
}

func TestLeavingClientCancelsCoaching(t *testing.T) {
	w := newWaiting()
	ls := listen(t, coached(w))
	ls.Ready(inferenceFunc(echo))
	conn := ls.dial(t)
	fmt.Fprintf(conn, "POST /v1/coaching HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(coachingBody), coachingBody)
	wait(t, "the coaching's start", w.started)
	conn.Close()
	if err := wait(t, "the coaching's end", w.ended); !errors.Is(err, context.Canceled) {
		t.Errorf("its context: %v", err)
	}
	waittest.Eventually(t, "the request ends", func() bool { return ls.InFlight() == 0 })
}

// TestAccessLogHasNoRunIDOrBody: clients choose run ids, which may be confidential.
func TestAccessLogHasNoRunIDOrBody(t *testing.T) {
	var log bytes.Buffer
	s := newTest(t, Ready, echo, coached(&fakeCoach{}), func(o *Options) { o.Log = zerolog.New(&log) })
	body := `{"provider": "llm", "backends": {"b": {"type": "openai", "endpoint": "http://127.0.0.1/hidden", "model": "m", "headers": {"Authorization": "Bearer hidden"}}}}`
	for _, r := range []request{{"PUT", "/v1/coaching/sessions/hidden", body, nil}, {"DELETE", "/v1/coaching/sessions/hidden", "", nil}} {
		if w := r.do(t, s); w.Code != 204 {
			t.Fatalf("%s: %d %s", r.method, w.Code, w.Body)
		}
	}
	if strings.Contains(log.String(), "hidden") || strings.Count(log.String(), "/v1/coaching/sessions/:run_id") != 2 {
		t.Errorf("the log is %s", log.String())
	}
	page := request{method: "GET", path: "/metrics"}.do(t, s).Body.String()
	if !strings.Contains(page, `route="/v1/coaching/sessions/:run_id",status="204"`) || strings.Contains(page, "hidden") {
		t.Error("the metrics lack the route, or show the run")
	}
}

// FuzzRunID: whatever a run is called, its escaped name in the path names it.
func FuzzRunID(f *testing.F) {
	for _, seed := range []string{"", "a", "run/1", "1+2", "%2F", "a b?c#d;e", "..", "ä", "\x00", "//", "\xff", strings.Repeat("r", maxRunID), strings.Repeat("r", maxRunID+1)} {
		f.Add(seed)
	}
	coach := &fakeCoach{}
	opts := testOptions()
	coached(coach)(&opts)
	s, err := New(opts)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, runID string) {
		coach.calls = nil
		w := request{method: "DELETE", path: pathSessions + url.PathEscape(runID)}.do(t, s)
		want := http.StatusNoContent
		switch {
		case runID == "":
			want = http.StatusNotFound
		case !utf8.ValidString(runID), len(runID) > maxRunID:
			want = http.StatusUnprocessableEntity
		}
		if w.Code != want || want == http.StatusNoContent && (len(coach.calls) != 1 || coach.calls[0] != "close "+runID) {
			t.Errorf("%q: got %d %s, want %d; the coach was asked %q", runID, w.Code, w.Body, want, coach.calls)
		}
	})
}
