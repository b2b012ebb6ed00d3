package coaching

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"agentd/protocol"
)

// long is a request with a goal of n bytes.
func long(runID, requestID string, n int) *protocol.SpecializedCoachingRequest {
	req := newRequest(runID, requestID)
	req.Stage.Goal = strings.Repeat("g", n)
	return req
}

func TestRequestsBeyondByteBudgetAreRejected(t *testing.T) {
	const most = 400_000
	m, asked, answer := busyModel()
	s := newService(t, Options{Local: m, MaxBytes: most})
	for i := range 6 {
		configure(t, s, fmt.Sprint("r", i), llmConfig(local()))
	}
	var waiting []<-chan answered
	admit := func(req *protocol.SpecializedCoachingRequest) {
		waiting = append(waiting, ask(t.Context(), s, req))
		receive(t, asked, "a question")
	}
	refuse := func(what string, req *protocol.SpecializedCoachingRequest) {
		t.Helper()
		var full *FullError
		if _, err := s.Coach(t.Context(), req); !errors.As(err, &full) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want a *FullError about %q", err, what)
		}
	}
	admit(long("r0", "longer than the share, but alone", most/sessionShare+1))
	refuse("of this run", newRequest("r0", "more"))
	for i := 1; i < 4; i++ {
		admit(long(fmt.Sprint("r", i), "another session's", most*9/40))
	}
	refuse("requests that are in progress", long("r4", "the last one's share is not there", most*9/40))
	admit(newRequest("r4", "a short one"))
	for range waiting {
		answer <- struct{}{}
	}
	for _, done := range waiting {
		if got := receive(t, done, "an answer"); got.err != nil {
			t.Error(got.err)
		}
	}
	if used := s.requestBytes.Used(); used != 0 {
		t.Errorf("%d bytes are still taken", used)
	}
	admit(long("r0", "again", most/sessionShare))
	answer <- struct{}{}
	receive(t, waiting[len(waiting)-1], "an answer")
}

func TestAbandonedTaskKeepsItsBytesUntilDone(t *testing.T) {
	const most = 800_000
	p, s := newPeople(t), newService(t, Options{MaxBytes: most})
	configure(t, s, "r", humanConfig(p.URL))
	ctx, leave := context.WithCancel(t.Context())
	ask(ctx, s, long("r", "1", most/32))
	p.wait(t, func() bool { return p.connections() == 1 })
	leave()
	waitFor(t, func() bool { return callers(s) == 0 })
	var full *FullError
	if _, err := s.Coach(t.Context(), long("r", "2", most/32)); !errors.As(err, &full) {
		t.Errorf("a second task gives %v, want a *FullError", err)
	}
	p.answerAll(personSays)
	waitFor(t, func() bool { return s.requestBytes.Used() == 0 })
}
