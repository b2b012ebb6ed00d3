package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestRepeatedRequestJoinsItsTask(t *testing.T) {
	f := open(t)
	first := f.post(foreign("r1"))
	second := f.post(strings.ReplaceAll(foreign("r1"), "\n", "")) // the same content in other whitespace
	if n := len(f.tasks("open")); n != 1 {
		t.Fatalf("%d tasks", n)
	}
	claim := f.claimed("1", "Ann")
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", object{"claim": claim, "status": "skipped", "reason": "unclear"}, nil)
	late := f.want(http.StatusOK, http.MethodPost, "/v1/coaching/requests", foreign("r1"), nil)
	for name, got := range map[string]string{"first": string(first.reply().body), "second": string(second.reply().body)} {
		if got != string(late.body) || !strings.Contains(got, `"error":"unclear"`) {
			t.Errorf("the %s agent got %s, a late one %s", name, got, late.body)
		}
	}
	if n := f.console.Waiting(); n != 0 {
		t.Errorf("%d tasks wait after the answer", n)
	}
}

func TestOtherRequestWithKnownIDConflicts(t *testing.T) {
	f := open(t)
	f.post(foreign("r1"))
	f.want(http.StatusConflict, http.MethodPost, "/v1/coaching/requests", strings.Replace(foreign("r1"), "Improve", "Change", 1), nil)
	if n := len(f.tasks("open")); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

func TestConcurrentPostsOfOneRequestMakeOneTask(t *testing.T) {
	f := open(t)
	const agents = 20
	results := make(chan reply, agents)
	for range agents {
		go func() {
			r, err := f.try(context.Background(), http.MethodPost, "/v1/coaching/requests", foreign("r1"))
			if err != nil {
				t.Error(err)
			}
			results <- r
		}()
	}
	f.eventually("all wait", func() bool { return f.connections() == agents })
	claim := f.claimed("1", "Ann")
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", object{"claim": claim, "status": "aborted", "reason": "broken"}, nil)
	for range agents {
		if r := <-results; r.status != http.StatusOK || !strings.Contains(string(r.body), "broken") {
			t.Errorf("an agent got %d %s", r.status, r.body)
		}
	}
	if open, done := len(f.tasks("open")), len(f.tasks("done")); open != 0 || done != 1 {
		t.Errorf("%d open and %d done tasks", open, done)
	}
}

func TestDisconnectedAgentIsShownAsNotWaiting(t *testing.T) {
	f := open(t)
	agent := f.post(foreign("r1"))
	agent.leave()
	f.eventually("it is shown as gone", func() bool { return !f.tasks("open")[0].AgentWaiting })
	claim := f.claimed("1", "Ann")
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", object{"claim": claim, "status": "skipped", "reason": "unclear"}, nil)
	if r := f.want(http.StatusOK, http.MethodPost, "/v1/coaching/requests", foreign("r1"), nil); !strings.Contains(string(r.body), "unclear") {
		t.Errorf("the agent that came back got %s", r.body)
	}
}

func TestWithdrawnTaskEndsForAgentAndPeople(t *testing.T) {
	f := open(t)
	agent := f.post(foreign("a/b c")) // an id that has to be escaped
	claim := f.claimed("1", "Ann")
	f.want(http.StatusNoContent, http.MethodPut, "/api/tasks/1/draft", object{"claim": claim, "draft": object{}}, nil)
	f.want(http.StatusNoContent, http.MethodDelete, "/v1/coaching/requests/a%2Fb%20c", nil, nil)
	if got := agent.answer(); got.Status != "aborted" || !strings.Contains(got.Error, "withdrawn") {
		t.Errorf("the agent got %+v", got)
	}
	r := f.call(http.MethodPost, "/api/tasks/1/answer", object{"claim": claim, "status": "skipped", "reason": "x"})
	if r.status != http.StatusConflict || r.detail() != errWithdrawn.Detail {
		t.Errorf("an answer to it: %d %s", r.status, r.body)
	}
	done := f.tasks("done")
	if len(f.tasks("open")) != 0 || len(done) != 1 || done[0].State != stateWithdrawn || done[0].HasDraft {
		t.Errorf("done tasks: %+v", done)
	}
	f.want(http.StatusNoContent, http.MethodDelete, "/v1/coaching/requests/a%2Fb%20c", nil, nil) // again
	f.want(http.StatusNotFound, http.MethodDelete, "/v1/coaching/requests/unknown", nil, nil)
	f.want(http.StatusOK, http.MethodPost, "/v1/coaching/requests", foreign("a/b c"), nil) // still withdrawn
}

func TestTasksSurviveRestart(t *testing.T) {
	f := open(t)
	agent := f.post(ours("r1"))
	f.post(ours("r2"))
	claim := f.claimed("1", "Ann")
	f.want(http.StatusNoContent, http.MethodPut, "/api/tasks/1/draft", object{"claim": claim, "draft": object{"say": "half"}}, nil)
	other := f.claimed("2", "Bob")
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/2/answer", object{"claim": other, "status": "skipped", "reason": "unclear"}, nil)

	f.stop()
	if r := agent.reply(); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		t.Errorf("the waiting agent got %d %s", r.status, r.body)
	}

	f = openAt(t, f.path, f.clock)
	if got := f.tasks("open"); len(got) != 1 || got[0].AgentWaiting || *got[0].ClaimedBy != "Ann" || !got[0].HasDraft {
		t.Fatalf("after the restart the list shows %+v", got)
	}
	agent = f.post(ours("r1"))
	var detail taskDetail
	f.want(http.StatusOK, http.MethodGet, "/api/tasks/1", nil, &detail)
	if string(detail.Draft) != `{"say":"half"}` || !detail.Task.AgentWaiting {
		t.Errorf("the draft is %s, the task %+v", detail.Draft, detail.Task)
	}
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", object{"claim": claim, "status": "completed", "point": "p0", "decision": pick("cube")}, nil)
	if got := agent.answer(); got.Status != "completed" {
		t.Errorf("the agent got %+v", got)
	}
	if r := f.want(http.StatusOK, http.MethodPost, "/v1/coaching/requests", ours("r2"), nil); !strings.Contains(string(r.body), "unclear") {
		t.Errorf("an answer from before the restart came as %s", r.body)
	}
	if f.post(foreign("r3")); f.tasks("open")[0].ID != "3" {
		t.Error("a number was given twice")
	}
}

func TestOpenTasksAreBounded(t *testing.T) {
	f := open(t)
	d := f.console.tasks
	d.mu.Lock()
	for seq := range uint64(maxOpen) {
		d.open[seq+1_000_000] = &presence{ended: make(chan struct{})}
	}
	d.mu.Unlock()
	r := f.want(http.StatusServiceUnavailable, http.MethodPost, "/v1/coaching/requests", foreign("r1"), nil)
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestTaskIsWithdrawnByExactID(t *testing.T) {
	f := open(t)
	f.post(foreign("run+1/2"))
	f.post(foreign("run 1/2"))
	f.want(http.StatusNoContent, http.MethodDelete, "/v1/coaching/requests/run+1%2F2", nil, nil)
	if left := f.tasks("open"); len(left) != 1 || left[0].ID != "2" {
		t.Errorf("open tasks: %+v", left)
	}
}

func TestInvalidTasksAreRefused(t *testing.T) {
	f := open(t)
	for name, test := range map[string]struct {
		body   string
		status int
		detail string
	}{
		"no JSON":       {`{`, http.StatusUnprocessableEntity, "body"},
		"unknown field": {strings.Replace(foreign("r"), "payload_id", "payloadid", 1), http.StatusUnprocessableEntity, "payloadid"},
		"no id":         {foreign(""), http.StatusUnprocessableEntity, "request_id"},
		"a long id":     {foreign(strings.Repeat("r", maxRequestID+1)), http.StatusUnprocessableEntity, "request_id"},
		"payload":       {`{"request_id":"r","payload_id":1,"payload_type":"x","payload":[],"rendered_prompt":""}`, http.StatusUnprocessableEntity, "payload"},
	} {
		if r := f.call(http.MethodPost, "/v1/coaching/requests", test.body); r.status != test.status || !strings.Contains(r.detail(), test.detail) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	large := strings.Repeat(" ", maxTaskBody+1)
	f.want(http.StatusRequestEntityTooLarge, http.MethodPost, "/v1/coaching/requests", large, nil)
	chunked := f.call(http.MethodPost, "/v1/coaching/requests", large, func(r *http.Request) { r.ContentLength = -1 })
	if chunked.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of unknown length that is too large: %d", chunked.status)
	}
	plain := f.call(http.MethodPost, "/v1/coaching/requests", foreign("r"), func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") })
	if plain.status != http.StatusUnsupportedMediaType {
		t.Errorf("text/plain: %d", plain.status)
	}
	if n := len(f.tasks("open")); n != 0 {
		t.Errorf("%d tasks were stored", n)
	}
}

func TestAgentPathsRefuseBrowsersAndOtherAddresses(t *testing.T) {
	f := open(t, func(o *Options) { o.AgentsFrom = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })
	if r := f.call(http.MethodDelete, "/v1/coaching/requests/x", nil); r.status != http.StatusForbidden || !strings.Contains(r.detail(), "configures the addresses of agents") {
		t.Errorf("from another address: %d %s", r.status, r.body)
	}
	f.want(http.StatusOK, http.MethodGet, "/health", nil, nil)
	f = open(t, func(o *Options) { o.AgentsFrom = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	f.want(http.StatusNotFound, http.MethodDelete, "/v1/coaching/requests/x", nil, nil)
	for _, header := range []string{"Origin", "Sec-Fetch-Site"} {
		r := f.call(http.MethodPost, "/v1/coaching/requests", foreign("r"), func(r *http.Request) { r.Header.Set(header, "http://localhost") })
		if r.status != http.StatusForbidden {
			t.Errorf("with %s: %d", header, r.status)
		}
	}
}

func TestPruneRemovesOnlyOldTasks(t *testing.T) {
	f := open(t, func(o *Options) { o.Keep = time.Hour })
	for _, id := range []string{"answered", "orphaned", "waiting", "claimed"} {
		f.post(foreign(id))
	}
	claim := f.claimed("1", "Ann")
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", object{"claim": claim, "status": "skipped", "reason": "x"}, nil)
	f.stop()
	f = openAt(t, f.path, f.clock, func(o *Options) { o.Keep = time.Hour })
	f.post(foreign("waiting"))

	f.clock.pass(time.Hour - time.Millisecond)
	f.prune()
	if open, done := len(f.tasks("open")), len(f.tasks("done")); open != 3 || done != 1 {
		t.Fatalf("too early: %d open and %d done tasks are left", open, done)
	}
	f.claimed("4", "Bob")
	f.clock.pass(time.Millisecond)
	f.prune()
	left := f.tasks("open")
	if len(left) != 2 || left[0].ID != "3" || left[1].ID != "4" || len(f.tasks("done")) != 0 {
		t.Errorf("left are %+v", left)
	}
	f.want(http.StatusNotFound, http.MethodGet, "/api/tasks/2", nil, nil)
	if f.post(foreign("orphaned")); len(f.tasks("open")) != 3 {
		t.Error("a removed task cannot be posted anew")
	}
	var wait sync.WaitGroup
	for range 4 { // pruning beside work
		wait.Go(f.prune)
	}
	wait.Wait()
}

func (f *fixture) prune() {
	if err := f.console.tasks.prune(); err != nil {
		f.t.Error(err)
	}
}

func TestPruneKeepsTaskOfReturnedAgent(t *testing.T) {
	f := open(t)
	f.post(foreign("r1"))
	f.clock.pass(DefaultKeep)
	if gone, err := f.console.tasks.remove(1); gone || err != nil { // as if it was found old before
		t.Errorf("removed: %v (%v)", gone, err)
	}
	claim := f.claimed("1", "Ann")
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", object{"claim": claim, "status": "skipped", "reason": "x"}, nil)
	if gone, err := f.console.tasks.remove(1); gone || err != nil { // answered just now
		t.Errorf("removed: %v (%v)", gone, err)
	}
	f.clock.pass(DefaultKeep)
	if gone, err := f.console.tasks.remove(1); !gone || err != nil {
		t.Errorf("not removed: %v", err)
	}
}

// TestHalfClosedAgentGetsItsAnswer, and errors of the connection are JSON.
func TestHalfClosedAgentGetsItsAnswer(t *testing.T) {
	f := open(t)
	dial := func() *net.TCPConn {
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(patience))
		return conn.(*net.TCPConn)
	}
	body := foreign("r1")
	conn := dial()
	fmt.Fprintf(conn, "POST /v1/coaching/requests HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	f.eventually("the agent waits", func() bool { return f.connections() == 1 })
	conn.CloseWrite()
	from := bufio.NewReader(conn)
	interim, err := http.ReadResponse(from, nil)
	if err != nil || interim.StatusCode != http.StatusContinue {
		t.Fatalf("the agent is not asked whether it is still there: %v", err)
	}
	interim.Body.Close()
	claim := f.claimed("1", "Ann")
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", object{"claim": claim, "status": "skipped", "reason": "no"}, nil)
	for {
		res, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == http.StatusContinue {
			continue
		}
		defer res.Body.Close()
		if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(text), "skipped") {
			t.Errorf("%s %s (%v)", res.Status, text, err)
		}
		break
	}

	broken := dial()
	io.WriteString(broken, "GET /health HTTP/1.1\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(broken), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusBadRequest || !strings.HasPrefix(string(text), `{"detail":`) {
		t.Errorf("%s %s (%v)", res.Status, text, err)
	}
}
