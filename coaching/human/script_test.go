package human

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/coaching/egress"
	"agentd/protocol"
)

// halfway breaks the connection in the middle of the answer.
func halfway(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `{"request_id":"r-1",`)
	panic(http.ErrAbortHandler)
}

const done = `{"request_id":"r-1","status":"completed","output":"{\"say\":\"hello\",\"action\":{}}"}`

func task() *protocol.HumanCoachingRequest {
	return &protocol.HumanCoachingRequest{
		RequestID: "r-1", PayloadID: 7, PayloadType: "FailureFixPayload",
		Payload: protocol.Raw(`{"stage_goal":"put the cup away"}`), RenderedPrompt: "# What now?",
	}
}

// rig is a coach whose clock the test moves.
type rig struct {
	*Coach
	clock    atomic.Int64 // nanoseconds
	failures []Failure
	slept    []time.Duration
	lookup   func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

func newRig(t *testing.T, target string) *rig {
	t.Helper()
	p, err := egress.NewPolicy(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := new(rig)
	client := p.NewClient(egress.ClientOptions{LookupIP: func(ctx context.Context, network, host string) ([]netip.Addr, error) {
		return r.lookup(ctx, network, host)
	}})
	t.Cleanup(client.Close)
	r.Coach = New(target, client, Options{
		Log:  func(f Failure) { r.failures = append(r.failures, f) },
		Rand: func() float64 { return 0.5 },
		Now:  func() time.Time { return time.Unix(0, r.clock.Load()) },
		Sleep: func(ctx context.Context, d time.Duration) error {
			r.slept = append(r.slept, d)
			return ctx.Err()
		},
	})
	return r
}

// want checks kind and text of an error, which must not hold the key that the
// endpoints of these tests have in their query.
func want(t *testing.T, err error, kind Kind, say string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != kind || !strings.Contains(e.Error(), say) {
		t.Errorf("error %v, want kind %q and %q", err, kind, say)
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v has the key", err)
	}
}
