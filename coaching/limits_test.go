package coaching

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/coaching/backend"
	"agentd/protocol"
)

// busyModel is a local model that says when it is asked and answers when it may.
func busyModel() (m modelFunc, asked chan struct{}, answer chan struct{}) {
	asked, answer = make(chan struct{}), make(chan struct{})
	return func(ctx context.Context, q backend.Question) (backend.Answer, error) {
		select {
		case asked <- struct{}{}:
		case <-ctx.Done():
			return backend.Answer{}, ctx.Err()
		}
		select {
		case <-answer:
			return answers(goodAnswer)(ctx, q)
		case <-ctx.Done():
			return backend.Answer{}, ctx.Err()
		}
	}, asked, answer
}

func TestSessionTakesSlotsPlusQueueRequests(t *testing.T) {
	for _, c := range []struct{ workers, queue, takes int }{{1, -1, 1}, {2, 3, 5}, {0, 0, DefaultWorkers + DefaultQueue}} {
		t.Run(fmt.Sprint(c.takes), func(t *testing.T) {
			m, asked, answer := busyModel()
			s := newService(t, Options{Workers: c.workers, Queue: c.queue, Local: m})
			configure(t, s, "full", llmConfig(local()))
			configure(t, s, "free", llmConfig(local()))
			var waiting []<-chan answered
			for i := range c.takes {
				waiting = append(waiting, ask(t.Context(), s, newRequest("full", fmt.Sprint(i))))
			}
			waitFor(t, func() bool { return callers(s) == c.takes })
			var full *FullError
			if _, err := s.Coach(t.Context(), newRequest("full", "more")); !errors.As(err, &full) {
				t.Fatalf("one more gives %v, want a *FullError", err)
			}
			if full.RetryAfter != modelsRetryAfter || !strings.Contains(full.Error(), fmt.Sprint(c.takes)) {
				t.Errorf("%v", full)
			}
			free := ask(t.Context(), s, newRequest("free", "c")) // has slots of its own
			for range c.takes + 1 {
				receive(t, asked, "a question")
				answer <- struct{}{}
			}
			for _, done := range append(waiting, free) {
				if got := receive(t, done, "an answer"); got.err != nil || got.res.Status != protocol.CoachingCorrected {
					t.Errorf("%v, %v", got.res, got.err)
				}
			}
			again := ask(t.Context(), s, newRequest("full", "again"))
			receive(t, asked, "a question")
			answer <- struct{}{}
			if got := receive(t, again, "an answer"); got.err != nil {
				t.Errorf("when there is room again: %v", got.err)
			}
		})
	}
}

// TestRequestsInWorkNeverExceedSlots looks at how many requests are
// with the model at once.
func TestRequestsInWorkNeverExceedSlots(t *testing.T) {
	const workers, requests = 3, 40
	var mu sync.Mutex
	now, most := 0, 0
	s := newService(t, Options{Workers: workers, Local: modelFunc(func(ctx context.Context, q backend.Question) (backend.Answer, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		now--
		mu.Unlock()
		return answers(goodAnswer)(ctx, q)
	})})
	configure(t, s, "r", llmConfig(local()))
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() { mustCoach(t, s, newRequest("r", fmt.Sprint(i))) })
	}
	all.Wait()
	if most > workers {
		t.Errorf("%d requests were in progress at once, want at most %d", most, workers)
	}
}

func TestCancelledCallerFreesItsPlace(t *testing.T) {
	m, asked, answer := busyModel()
	s := newService(t, Options{Workers: 1, Queue: 1, Local: m})
	configure(t, s, "r", llmConfig(local()))
	for _, where := range []string{"in progress", "in the queue"} {
		ctx, leave := context.WithCancel(t.Context())
		worked := ask(t.Context(), s, newRequest("r", "stays, the other "+where))
		receive(t, asked, "the question")
		if where == "in progress" {
			answer <- struct{}{}
			receive(t, worked, "the answer")
			worked = ask(ctx, s, newRequest("r", "leaves"))
			receive(t, asked, "the question")
			leave()
			if got := receive(t, worked, "the end"); !errors.Is(got.err, context.Canceled) {
				t.Errorf("%s: %v, want the context's error", where, got.err)
			}
		} else {
			queued := ask(ctx, s, newRequest("r", "leaves"))
			waitFor(t, func() bool { return callers(s) == 2 })
			leave()
			if got := receive(t, queued, "the end"); !errors.Is(got.err, context.Canceled) {
				t.Errorf("%s: %v, want the context's error", where, got.err)
			}
			answer <- struct{}{}
			receive(t, worked, "the answer")
		}
		if n := callers(s); n != 0 {
			t.Errorf("%s: %d callers are left", where, n)
		}
	}
}

func TestHumanTasksSkipTheQueueButAreBounded(t *testing.T) {
	p, s := newPeople(t), newService(t, Options{Workers: 1, Queue: 2})
	configure(t, s, "r", humanConfig(p.URL))
	ctx, leave := context.WithCancel(t.Context())
	for i := range 3 {
		ask(ctx, s, newRequest("r", fmt.Sprint(i)))
	}
	p.wait(t, func() bool { return p.connections() == 3 })
	var full *FullError
	if _, err := s.Coach(t.Context(), newRequest("r", "more")); !errors.As(err, &full) {
		t.Errorf("a task too many gives %v, want a *FullError", err)
	}
	leave()
	waitFor(t, func() bool { return callers(s) == 0 })
	// The tasks are still with the people, so another one does not fit,
	// but a caller may join one of them.
	if _, err := s.Coach(t.Context(), newRequest("r", "more")); !errors.As(err, &full) {
		t.Errorf("a task too many gives %v, want a *FullError", err)
	}
	joined := ask(t.Context(), s, newRequest("r", "1"))
	waitFor(t, func() bool { return callers(s) == 1 })
	p.answerAll(personSays)
	if got := receive(t, joined, "the answer"); got.err != nil {
		t.Error(got.err)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	s := newService(t, Options{MaxSessions: 2, Local: answers(goodAnswer)})
	configure(t, s, "a", llmConfig(local()))
	configure(t, s, "b", llmConfig(local()))
	configure(t, s, "b", llmConfig(local()))
	var full *FullError
	if err := s.Configure(t.Context(), "c", llmConfig(local())); !errors.As(err, &full) || full.RetryAfter <= 0 {
		t.Errorf("one session more gives %v, want a *FullError", err)
	}
	if err := s.CloseSession(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	configure(t, s, "c", llmConfig(local()))
}

func TestTrajectoriesAreBounded(t *testing.T) {
	s := newService(t, Options{MaxSteps: 2, Local: answers(goodAnswer)})
	configure(t, s, "r", llmConfig(local()))
	req := newRequest("r", "c")
	for i := range int64(2) {
		step := req.Trajectory[0]
		step.ID = i
		req.Trajectory = append(req.Trajectory, step)
	}
	_, err := s.Coach(t.Context(), req)
	var problems protocol.Problems
	if !errors.As(err, &problems) || len(problems) != 1 || fmt.Sprint(problems[0].Loc) != "[body trajectory]" {
		t.Errorf("a trajectory that is too long gives %v, want a problem at it", err)
	}
	req.Trajectory = req.Trajectory[:2]
	mustCoach(t, s, req)
	req.RunID = "unknown"
	req.Trajectory = append(req.Trajectory, req.Trajectory[0])
	if _, err := s.Coach(t.Context(), req); !errors.As(err, &problems) {
		t.Errorf("the trajectory is looked at before the session is, not %v", err)
	}
}

func TestIdleSessionsAreClosed(t *testing.T) {
	var mu sync.Mutex
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	later := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	ticks, swept := make(chan struct{}), make(chan struct{})
	first := true
	m, asked, answer := busyModel()
	s := newService(t, Options{
		Idle: time.Hour, Local: m,
		Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return now
		},
		Sleep: func(ctx context.Context, d time.Duration) error { // only the sweeper sleeps here
			if d < minSweep || d > maxSweep {
				t.Errorf("sleeps for %s", d)
			}
			if !first {
				swept <- struct{}{}
			}
			first = false
			select {
			case <-ticks:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	})
	sweep := func() {
		t.Helper()
		ticks <- struct{}{}
		receive(t, swept, "the end of the sweep")
	}
	open := func(want string) {
		t.Helper()
		got := ""
		for _, run := range []string{"idle", "used", "busy"} {
			if state(t, s, run) != "" {
				got += run + " "
			}
		}
		if got != want {
			t.Errorf("open are %q, want %q", got, want)
		}
	}
	for _, run := range []string{"idle", "used", "busy"} {
		configure(t, s, run, llmConfig(local()))
	}
	busy := ask(t.Context(), s, newRequest("busy", "c"))
	receive(t, asked, "the question")
	later(40 * time.Minute)
	sweep()
	open("idle used busy ")
	configure(t, s, "used", llmConfig(local())) // counts as a use
	later(40 * time.Minute)
	sweep()
	open("used busy ")
	later(40 * time.Minute)
	sweep()
	open("busy ")
	answer <- struct{}{}
	receive(t, busy, "the answer")
	later(59 * time.Minute)
	sweep()
	open("busy ")
	later(time.Minute)
	sweep()
	open("")
	if _, err := s.Coach(t.Context(), newRequest("idle", "c")); !errors.Is(err, ErrUnknown) {
		t.Errorf("a request in a session that was idle gives %v, want ErrUnknown", err)
	}
}
