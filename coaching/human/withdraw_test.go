package human

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/coaching/internal/scriptedtest"
)

func TestWithdrawToleratesEndpointsWithoutIt(t *testing.T) {
	for status, fine := range map[int]bool{
		200: true, 202: true, 204: true, 404: true, 405: true, 410: true, 501: true,
		400: false, 401: false, 409: false, 500: false, 503: false,
	} {
		err := newRig(t, scriptedtest.New(t, scriptedtest.Answer(status, "")).URL).Withdraw(t.Context(), "r-1")
		if fine && err != nil {
			t.Errorf("%d: %v", status, err)
		} else if !fine {
			want(t, err, Broken, fmt.Sprint(status))
		}
	}
}

func TestWithdrawEscapesTheTaskID(t *testing.T) {
	e := scriptedtest.New(t, scriptedtest.Answer(204, ""))
	for _, id := range []string{"a/b", "../x?y#z", "ü %"} {
		if err := newRig(t, e.URL).Withdraw(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"DELETE /v1/coaching/requests/a%2Fb ", "DELETE /v1/coaching/requests/..%2Fx%3Fy%23z ", "DELETE /v1/coaching/requests/%C3%BC%20%25 ",
	}
	if diff := cmp.Diff(want, e.Lines()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestWithdrawReportsUnreachableEndpoint(t *testing.T) {
	r := newRig(t, scriptedtest.New(t, scriptedtest.Reset).URL)
	want(t, r.Withdraw(t.Context(), "r-1"), Unreachable, "cannot be reached")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Withdraw(ctx, "r-1"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}

func TestReachNeedsAnAnswerOfTheEndpointItself(t *testing.T) {
	for status, reached := range map[int]bool{
		204: true, 404: true, 405: true, 401: true, 400: true, 500: true,
		408: false, 429: false, 502: false, 503: false, 504: false,
	} {
		e := scriptedtest.New(t, scriptedtest.Answer(status, ""))
		if err := newRig(t, e.URL).Reach(t.Context(), "no-task"); (err == nil) != reached {
			t.Errorf("%d: %v, want reached %t", status, err, reached)
		}
		if diff := cmp.Diff([]string{"DELETE /v1/coaching/requests/no-task "}, e.Lines()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
	want(t, newRig(t, scriptedtest.New(t, scriptedtest.Reset).URL).Reach(t.Context(), "no-task"), Unreachable, "cannot be reached")
}
