package human

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/coaching/internal/scriptedtest"
	"agentd/protocol"
)

func TestPersonsAnswerComesBack(t *testing.T) {
	e := scriptedtest.New(t, scriptedtest.Answer(200, done))
	got, err := newRig(t, e.URL+"/base/?token=k").Ask(t.Context(), task())
	if err != nil {
		t.Fatal(err)
	}
	output := `{"say":"hello","action":{}}`
	want := &protocol.HumanCoachingResponse{RequestID: "r-1", Status: protocol.HumanCompleted, Output: &output}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	sent := []string{"POST /base/v1/coaching/requests?token=k " + string(task().AppendJSON(nil))}
	if diff := cmp.Diff(sent, e.Lines()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestSkippedAndAbortedAreAnswers(t *testing.T) {
	for _, status := range []string{"skipped", "aborted"} {
		e := scriptedtest.New(t, scriptedtest.Answer(200, `{"request_id":"r-1","status":"`+status+`","error":"not now","output":null}`))
		got, err := newRig(t, e.URL).Ask(t.Context(), task())
		if err != nil || got.Status != status || got.Error != "not now" {
			t.Errorf("%s: %+v, %v", status, got, err)
		}
	}
}

func TestBrokenWaitPostsTheSameTaskAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []http.HandlerFunc
	}{
		{"connection reset", []http.HandlerFunc{scriptedtest.Reset}},
		{"connection closed in the middle of the answer", []http.HandlerFunc{halfway}},
		{"bad gateway", []http.HandlerFunc{scriptedtest.Answer(502, "<html>")}},
		{"unavailable", []http.HandlerFunc{scriptedtest.Answer(503, `{"detail":"restarting"}`)}},
		{"gateway timeout", []http.HandlerFunc{scriptedtest.Answer(504, "")}},
		{"too many requests", []http.HandlerFunc{scriptedtest.Answer(429, "")}},
		{"request timeout", []http.HandlerFunc{scriptedtest.Answer(408, "")}},
		{"one after the other", []http.HandlerFunc{scriptedtest.Reset, scriptedtest.Answer(502, ""), halfway, scriptedtest.Reset}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := scriptedtest.New(t, append(slices.Clone(tt.steps), scriptedtest.Answer(200, done))...)
			r := newRig(t, e.URL)
			got, err := r.Ask(t.Context(), task())
			if err != nil || got.RequestID != "r-1" {
				t.Fatalf("%+v, %v", got, err)
			}
			seen := e.Lines()
			if len(seen) != len(tt.steps)+1 || len(slices.Compact(seen)) != 1 {
				t.Errorf("requests %q, want the same %d times", seen, len(tt.steps)+1)
			}
			if len(r.failures) != len(tt.steps) || r.failures[0].Try != 1 || r.failures[0].Err == nil {
				t.Errorf("failures %+v, want %d", r.failures, len(tt.steps))
			}
		})
	}
}

// The endpoint goes away while the person thinks, and comes back: like a console
// that is restarted. Nobody listens at 127.0.0.2.
func TestRestartedEndpointIsFoundAgain(t *testing.T) {
	e := scriptedtest.New(t, scriptedtest.Reset, scriptedtest.Answer(200, done))
	r := newRig(t, strings.Replace(e.URL, "127.0.0.1", "console.example", 1))
	r.lookup = func(context.Context, string, string) ([]netip.Addr, error) {
		// Away for longer than an endpoint that never had the task would get.
		if n := len(r.failures); n > 0 && n < MaxFirstFailures+5 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	if _, err := r.Ask(t.Context(), task()); err != nil {
		t.Fatal(err)
	}
	if last := r.failures[len(r.failures)-1]; !last.Sent || last.Try != MaxFirstFailures+5 {
		t.Errorf("last failure %+v, want one that knows that the endpoint has the task", last)
	}
	if seen := e.Lines(); len(seen) != 2 || seen[0] != seen[1] {
		t.Errorf("requests %q, want the same twice", seen)
	}
}

func TestEndpointWithoutTaskIsUnreachableSoon(t *testing.T) {
	busy := scriptedtest.New(t, scriptedtest.Answer(503, ""))
	for _, endpoint := range []string{strings.Replace(busy.URL, "127.0.0.1", "127.0.0.2", 1), busy.URL} {
		r := newRig(t, endpoint+"/?token=secret")
		_, err := r.Ask(t.Context(), task())
		want(t, err, Unreachable, endpoint)
		if len(r.slept) != MaxFirstFailures-1 {
			t.Errorf("%d waits, want %d", len(r.slept), MaxFirstFailures-1)
		}
	}
}

func TestEndpointThatBreaksEveryWaitIsUnreachable(t *testing.T) {
	r := newRig(t, scriptedtest.New(t, scriptedtest.Reset).URL)
	_, err := r.Ask(t.Context(), task())
	want(t, err, Unreachable, "cannot be reached")
	if len(r.slept) != MaxFailures-1 {
		t.Errorf("%d waits, want %d", len(r.slept), MaxFailures-1)
	}
}

// A proxy that cuts quiet connections may do so for hours.
func TestLongWaitsAreNotFailures(t *testing.T) {
	const cuts = 3 * MaxFailures
	for name, cut := range map[string]http.HandlerFunc{"reset": scriptedtest.Reset, "gateway timeout": scriptedtest.Answer(504, "")} {
		t.Run(name, func(t *testing.T) {
			e := scriptedtest.New(t)
			r := newRig(t, e.URL)
			slow := func(w http.ResponseWriter, q *http.Request) {
				r.clock.Add(int64(steady))
				cut(w, q)
			}
			e.Script(append(slices.Repeat([]http.HandlerFunc{slow}, cuts), scriptedtest.Answer(200, done))...)
			if _, err := r.Ask(t.Context(), task()); err != nil {
				t.Fatal(err)
			}
			if len(r.slept) != cuts || slices.Max(r.slept) > firstBackoff {
				t.Errorf("%d waits of up to %v, want %d short ones", len(r.slept), slices.Max(r.slept), cuts)
			}
		})
	}
}

// The gateway would not have waited for an endpoint that is not there.
func TestGatewayThatWaitedHoldsTheTask(t *testing.T) {
	e := scriptedtest.New(t)
	r := newRig(t, e.URL)
	slow := func(w http.ResponseWriter, q *http.Request) {
		r.clock.Add(int64(steady))
		scriptedtest.Answer(504, "")(w, q)
	}
	steps := append([]http.HandlerFunc{slow}, slices.Repeat([]http.HandlerFunc{scriptedtest.Answer(502, "")}, MaxFirstFailures+5)...)
	e.Script(append(steps, scriptedtest.Answer(200, done))...)
	if _, err := r.Ask(t.Context(), task()); err != nil {
		t.Fatal(err)
	}
}

func TestBackoffDoublesWithJitterUpToMax(t *testing.T) {
	c := New("http://127.0.0.1", nil, Options{})
	for _, tt := range []struct {
		failures int
		rand     float64
		err      error
		want     time.Duration
	}{
		{1, 0, io.EOF, 250 * time.Millisecond},
		{1, 1, io.EOF, 500 * time.Millisecond},
		{2, 1, io.EOF, time.Second},
		{3, 0.5, io.EOF, 1500 * time.Millisecond},
		{7, 1, io.EOF, 30 * time.Second},
		{MaxFailures, 1, io.EOF, 30 * time.Second},
		{1000, 0, io.EOF, 15 * time.Second},
		{1, 0, &busyError{503, 7 * time.Second}, 7 * time.Second},
		{1, 0, &busyError{503, time.Hour}, 30 * time.Second},
		{1, 0, fmt.Errorf("x: %w", &busyError{503, 0}), 250 * time.Millisecond},
	} {
		c.opts.Rand = func() float64 { return tt.rand }
		if got := c.wait(tt.failures, tt.err); got != tt.want {
			t.Errorf("after %d failures, %v: wait %v, want %v", tt.failures, tt.err, got, tt.want)
		}
	}
}

func TestRetryAfterIsObeyedUpToMax(t *testing.T) {
	busy := func(after string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	e := scriptedtest.New(t, busy("7"), busy("1000000"), busy("soon"), scriptedtest.Answer(200, done))
	r := newRig(t, e.URL)
	if _, err := r.Ask(t.Context(), task()); err != nil {
		t.Fatal(err)
	}
	own := r.wait(3, io.EOF)
	// More seconds than anyone can mean are the longest wait.
	if diff := cmp.Diff([]time.Duration{7 * time.Second, maxBackoff, own}, r.slept); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

func TestContextEndsWaitAndWithdrawsTask(t *testing.T) {
	stop := errors.New("the session is closed")
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := make(chan struct{})
	e := scriptedtest.New(t,
		func(_ http.ResponseWriter, r *http.Request) { cancel(stop); <-r.Context().Done(); close(gone) },
		scriptedtest.Answer(204, ""))
	r := newRig(t, e.URL+"?token=k")
	if _, err := r.Ask(ctx, task()); !errors.Is(err, stop) {
		t.Errorf("error %v, want the context's cause", err)
	}
	<-gone
	if err := r.Withdraw(t.Context(), "r-1"); err != nil {
		t.Error(err)
	}
	if seen := e.Lines(); len(seen) != 2 || seen[1] != "DELETE /v1/coaching/requests/r-1?token=k " {
		t.Errorf("requests %q", seen)
	}
}

func TestContextEndsBackoff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := newRig(t, scriptedtest.New(t, scriptedtest.Reset).URL)
	r.opts.Log = func(Failure) { cancel() }
	r.opts.Sleep = func(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return context.Cause(ctx) }
	if _, err := r.Ask(ctx, task()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}

func TestClosingTheClientEndsTheWait(t *testing.T) {
	waiting := make(chan struct{})
	e := scriptedtest.New(t, func(_ http.ResponseWriter, r *http.Request) { close(waiting); <-r.Context().Done() })
	r := newRig(t, e.URL)
	go func() { <-waiting; r.client.Close() }()
	_, err := r.Ask(t.Context(), task())
	want(t, err, Unreachable, "closed")
}

// Two questions to one coach do not disturb each other.
func TestManyTasksWaitAtOnce(t *testing.T) {
	const n = 20
	var arrived sync.WaitGroup
	arrived.Add(n)
	e := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			RequestID string `json:"request_id"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		arrived.Done()
		arrived.Wait() // all requests arrive before the first answer
		scriptedtest.Answer(200, strings.Replace(done, "r-1", body.RequestID, 1))(w, r)
	}))
	t.Cleanup(e.Close)
	r := newRig(t, e.URL)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			req := task()
			req.RequestID = fmt.Sprint("task ", i)
			if res, err := r.Ask(t.Context(), req); err != nil || res.RequestID != req.RequestID {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	wg.Wait()
}
