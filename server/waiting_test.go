package server

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/waittest"
)

// long is a LoadingWait that no test waits for.
const long = time.Hour

func waitsForModel(o *Options) { o.LoadingWait = long }

// waits waits until so many requests wait for the model.
func (ls *listening) waits(t *testing.T, n int64) {
	t.Helper()
	waittest.Eventually(t, "the wait", func() bool { return ls.waiting.Load() == n })
}

func TestRequestsWaitWhileModelLoads(t *testing.T) {
	coach := &fakeCoach{}
	ls := listen(t, waitsForModel, coached(coach))
	answer := ls.post(t)
	put := ls.send(t, http.MethodPut, "/v1/coaching/sessions/r", `{"provider": "human", "endpoint": "http://127.0.0.1:1"}`)
	ls.waits(t, 2)
	for path, status := range map[string]int{"/health": 503, "/v1/info": 200} {
		if w := (request{method: "GET", path: path}).do(t, ls.Server); w.Code != status || w.Code == 503 && !strings.Contains(w.Body.String(), "loading") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	ls.Ready(inferenceFunc(echo))
	if got := wait(t, "the answer", answer); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, `"say":"hi"`) {
		t.Errorf("got %s", got)
	}
	if got := wait(t, "the answer", put); !strings.HasPrefix(got, "204 ") {
		t.Errorf("a session: %s", got)
	}
	ls.waits(t, 0)
}

func TestWaitForModelEnds(t *testing.T) {
	for name, test := range map[string]struct {
		wait   time.Duration
		end    func(*Server)
		detail string
		after  string // Retry-After
	}{
		"nothing waits without a time": {0, nil, "still loading", "2"},
		"the time is up":               {time.Millisecond, nil, "still loading", "2"},
		"the server drains":            {long, func(s *Server) { _ = s.Drain(context.Background()) }, "shutting down", "10"},
		"its work is cancelled":        {long, func(s *Server) { s.CancelWork() }, "shutting down", "10"},
		"the model cannot be loaded":   {long, (*Server).FailLoading, "could not be loaded", "10"},
		"the load failed, then drains": {long, func(s *Server) { s.FailLoading(); _ = s.Drain(context.Background()) }, "", "10"},
	} {
		t.Run(name, func(t *testing.T) {
			ls := listen(t, func(o *Options) { o.LoadingWait = test.wait })
			conn := ls.dial(t)
			io.WriteString(conn, raw(""))
			if test.end != nil {
				ls.waits(t, 1)
				test.end(ls.Server)
			}
			res, body, _ := answer(t, bufio.NewReader(conn), http.MethodPost)
			wantDetail(t, res, body, http.StatusServiceUnavailable, test.detail)
			if after := res.Header.Get("Retry-After"); after != test.after {
				t.Errorf("Retry-After is %q, want %q", after, test.after)
			}
		})
	}
}

func TestRequestsWaitWhilePaused(t *testing.T) {
	for name, test := range map[string]struct {
		wait   time.Duration
		end    func(*Server, *fakeWeights)
		status string
	}{
		"resume":                       {long, func(_ *Server, f *fakeWeights) { f.Resume() }, "200 "},
		"the server drains":            {long, func(s *Server, _ *fakeWeights) { _ = s.Drain(context.Background()) }, "200 "},
		"its work is cancelled":        {long, func(s *Server, _ *fakeWeights) { s.CancelWork() }, "503 "},
		"nothing waits without a time": {0, nil, "503 "},
		"the time is up":               {time.Millisecond, nil, "503 "},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeWeights{inferenceFunc: echo, over: make(chan struct{})}
			ls := listen(t, func(o *Options) { o.LoadingWait = test.wait })
			ls.Ready(f)
			answer := ls.post(t)
			if test.end != nil {
				ls.waits(t, 1)
				test.end(ls.Server, f)
			}
			if got := wait(t, "the answer", answer); !strings.HasPrefix(got, test.status) || test.end == nil && !strings.Contains(got, "paused") {
				t.Errorf("got %s, want %s", got, test.status)
			}
			ls.waits(t, 0)
			waittest.Eventually(t, "nothing in flight", func() bool { return ls.InFlight() == 0 })
		})
	}
}

func TestFailedLoadRefusesLaterRequests(t *testing.T) {
	ls := listen(t, waitsForModel)
	ls.FailLoading()
	ls.FailLoading()
	if got := wait(t, "the refusal", ls.post(t)); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "could not be loaded") {
		t.Errorf("got %s", got)
	}
}

// TestLeavingClientStopsWaitingForModel although nothing reads its body. A half-closed one goes on
// waiting.
func TestLeavingClientStopsWaitingForModel(t *testing.T) {
	for name, body := range map[string]string{"with a body": raw(""), "with a part of one": strings.TrimSuffix(raw(""), "}")} {
		t.Run(name, func(t *testing.T) {
			ls := listen(t, waitsForModel)
			conn := ls.dial(t)
			io.WriteString(conn, body)
			ls.waits(t, 1)
			conn.Close()
			ls.waits(t, 0)
		})
	}
	t.Run("after the end of what it sends", func(t *testing.T) {
		ls := listen(t, waitsForModel)
		conn := ls.dial(t)
		io.WriteString(conn, raw(""))
		ls.waits(t, 1)
		closeSending(t, conn)
		from := bufio.NewReader(conn)
		if _, err := from.Peek(1); err != nil { // it is asked whether it is still there
			t.Fatal(err)
		}
		ls.Ready(inferenceFunc(echo))
		if res, body, _ := answer(t, from, http.MethodPost); res.StatusCode != http.StatusOK {
			t.Errorf("got %s %s", res.Status, body)
		}
	})
}

func TestRequestsWaitingForModelAreBounded(t *testing.T) {
	ls := listen(t, waitsForModel)
	ls.waiting.Store(maxWaiting - 1) // as if so many waited already
	answer := ls.post(t)
	ls.waits(t, maxWaiting)
	if got := wait(t, "the refusal", ls.post(t)); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "still loading") {
		t.Errorf("one more: %s", got)
	}
	ls.waits(t, maxWaiting)
	ls.Ready(inferenceFunc(echo))
	if got := wait(t, "the answer", answer); !strings.HasPrefix(got, "200 ") {
		t.Errorf("the last one that found a place: %s", got)
	}
}
