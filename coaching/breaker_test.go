package coaching

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"agentd/coaching/coach"
	"agentd/coaching/human"
	"agentd/coaching/internal/scriptedtest"
	"agentd/protocol"
)

// sleeper is a Sleep that returns at once, except before a probe: those the test lets
// pass one by one.
type sleeper struct {
	tries atomic.Int64 // other sleeps
	probe chan struct{}
}

func (s *sleeper) sleep(ctx context.Context, d time.Duration) error {
	if d != coach.ProbeInterval {
		s.tries.Add(1)
		return ctx.Err()
	}
	select {
	case <-s.probe:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// logged counts the lines of the server's log with a text.
func (o *output) logged(text string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Count(o.text.String(), text)
}

// absent is an address where nobody listens until the test does.
func absent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestUnreachablePeopleAreSkippedUntilTheyAnswer(t *testing.T) {
	for _, when := range []string{PeopleFirst, PeopleFailed} {
		t.Run(when, func(t *testing.T) {
			var out output
			address, naps := absent(t), &sleeper{probe: make(chan struct{})}
			script := scriptedtest.New(t, says(declinedAnswer))
			s := newService(t, Options{Log: zerolog.New(&out), Sleep: naps.sleep, People: People{"http://" + address + "?key=" + secret, when}})
			for _, run := range []string{"r", "other"} {
				configure(t, s, run, llmConfig(openai("model", script.URL)))
			}
			first := mustCoach(t, s, newRequest("r", "a"))
			tries := naps.tries.Load()
			if !strings.Contains(first.Reason, "cannot be reached") || tries == 0 {
				t.Fatalf("the first request: %d tries, %s", tries, first.Reason)
			}
			for _, run := range []string{"r", "other"} { // one breaker serves all sessions
				res := mustCoach(t, s, newRequest(run, "b"))
				if !strings.Contains(res.Reason, "no person was asked") || !strings.Contains(res.Logs[0].Content, "Not asked: ") {
					t.Errorf("while they are away: %s\n%s", res.Reason, res.Logs[0].Content)
				}
			}
			naps.probe <- struct{}{} // in vain
			naps.probe <- struct{}{}
			if n := naps.tries.Load(); n != tries {
				t.Errorf("%d more tries while people were known to be away", n-tries)
			}

			p := newPeopleAt(t, address)
			waitFor(t, func() bool { // the last probe may have found them already
				select {
				case naps.probe <- struct{}{}:
				default:
				}
				return out.logged("human endpoint reachable again") == 1
			})
			done := ask(t.Context(), s, newRequest("r", "c"))
			p.wait(t, func() bool { return p.count() == 1 })
			p.answerAll(personSays)
			if got := receive(t, done, "the answer"); got.err != nil || got.res.Status != protocol.CoachingCorrected {
				t.Errorf("once they are back: %+v, %v", got.res, got.err)
			}
			if n := out.logged(`"level":"warn"`); n != 1 || out.logged("human endpoint unreachable; coaching continues without people") != 1 {
				t.Errorf("%d warnings, want one:\n%s", n, out.text.String())
			}
			if out.logged(secret) > 0 {
				t.Errorf("the log has the key:\n%s", out.text.String())
			}
		})
	}
}

func TestTaskInWorkIsJoinedWhilePeopleAreAway(t *testing.T) {
	p := newPeople(t)
	s := newService(t, Options{Local: answers(goodAnswer), People: People{Endpoint: p.URL}})
	configure(t, s, "r", llmConfig(local()))
	ctx, leave := context.WithCancel(t.Context())
	first := ask(ctx, s, newRequest("r", "c"))
	p.wait(t, func() bool { return p.connections() == 1 })
	leave()
	receive(t, first, "the end")
	s.breaker.Observe(&human.Error{Kind: human.Unreachable})
	again := ask(t.Context(), s, newRequest("r", "c"))
	waitFor(t, func() bool { return callers(s) == 1 })
	p.answerAll(personSays)
	if got := receive(t, again, "the answer"); got.err != nil || got.res.Status != protocol.CoachingCorrected {
		t.Errorf("%+v, %v", got.res, got.err)
	}
}

func TestClosingEndsTheSearchForPeople(t *testing.T) {
	s := newService(t, Options{People: People{Endpoint: "http://" + closedPort}})
	script := scriptedtest.New(t, says(goodAnswer))
	configure(t, s, "r", llmConfig(openai("model", script.URL)))
	mustCoach(t, s, newRequest("r", "c"))
	if err := s.breaker.Check(); err == nil {
		t.Fatal("the breaker did not trip")
	}
	if err := s.Close(t.Context()); err != nil { // it waits for the search, and goleak sees one that goes on
		t.Error(err)
	}
}
