package coaching

import (
	"context"
	"errors"
	"testing"
	"time"

	"agentd/coaching/backend"
	"agentd/coaching/session"
	"agentd/coaching/store"
	"agentd/protocol"
)

// TestStates walks through the states of a session. A step is an operation and
// the error that it must give; "begin" operations stay in progress until "answer",
// and "end" waits for them.
func TestStates(t *testing.T) {
	type step struct {
		do   string
		want error
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"the same configuration may be put again", []step{{"put A", nil}, {"put A", nil}, {"post", nil}, {"put A", nil}}},
		{"a closing session takes nothing", []step{
			{"put A", nil}, {"begin post", nil}, {"begin delete", nil},
			{"post", session.ErrSealed}, {"delete", ErrUnknown}, {"put A", ErrClosing}, {"put B", ErrClosing},
			{"answer", nil}, {"end post", nil}, {"end delete", nil}, {"post", ErrUnknown}, {"put B", nil}, {"post", nil},
		}},
		{"closing goes on when its caller leaves", []step{
			{"put A", nil}, {"begin post", nil}, {"leave delete", context.Canceled}, {"post", session.ErrSealed}, {"delete", ErrUnknown},
			{"answer", nil}, {"end post", nil}, {"closed", nil}, {"put B", nil},
		}},
		{"configuring again during a request is fine", []step{{"put A", nil}, {"begin post", nil}, {"put A", nil}, {"put B", ErrConflict}, {"answer", nil}, {"end post", nil}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked, answer := make(chan struct{}), make(chan struct{})
			held := false
			s := newService(t, Options{Local: modelFunc(func(ctx context.Context, q backend.Question) (backend.Answer, error) {
				if held {
					asked <- struct{}{}
					<-answer
				}
				return answers(goodAnswer)(ctx, q)
			})})
			configs := map[string]*protocol.CoachingSessionConfig{"put A": llmConfig(local()), "put B": llmConfig(local(), local())}
			post := func() error {
				_, err := s.Coach(t.Context(), newRequest("r", "c"))
				return err
			}
			posted, deleted := make(chan error, 1), make(chan error, 1)
			for i, step := range c.steps {
				var err error
				switch step.do {
				case "put A", "put B":
					err = s.Configure(t.Context(), "r", configs[step.do])
				case "post":
					err = post()
				case "begin post":
					held = true
					go func() { posted <- post() }()
					receive(t, asked, "the question")
					held = false
				case "delete":
					err = s.CloseSession(t.Context(), "r")
				case "begin delete":
					go func() { deleted <- s.CloseSession(t.Context(), "r") }()
					waitFor(t, func() bool { return state(t, s, "r") == store.Closing })
				case "leave delete":
					ctx, leave := context.WithCancel(t.Context())
					leave()
					err = s.CloseSession(ctx, "r")
				case "answer":
					answer <- struct{}{}
				case "end post":
					err = receive(t, posted, "the answer")
				case "end delete":
					err = receive(t, deleted, "the end of DELETE")
				case "closed":
					waitFor(t, func() bool { return state(t, s, "r") == "" })
				}
				if !errors.Is(err, step.want) {
					t.Fatalf("step %d, %s: error %v, want %v", i, step.do, err, step.want)
				}
			}
		})
	}
}

// state is the state of a run's session, "" when it has none.
func state(t *testing.T, s *Service, runID string) store.State {
	t.Helper()
	rec, err := s.opts.Store.Get(t.Context(), runID)
	if err != nil {
		t.Fatal(err)
	}
	if rec == nil {
		return ""
	}
	return rec.State
}

// hookedStore does something after the first Get that finds a session.
type hookedStore struct {
	*store.Memory
	after func()
}

func (h *hookedStore) Get(ctx context.Context, runID string) (*store.Record, error) {
	rec, err := h.Memory.Get(ctx, runID)
	if after := h.after; rec != nil && after != nil {
		h.after = nil
		after()
	}
	return rec, err
}

// TestSessionClosedDuringLookup closes it, wholly, after a request
// has found it in the store and before anything runs for that request.
func TestSessionClosedDuringLookup(t *testing.T) {
	for _, c := range []struct {
		name  string
		after func(t *testing.T, s *Service)
	}{
		{"is unknown", func(*testing.T, *Service) {}},
		{"is unknown though the run has a new one", func(t *testing.T, s *Service) { configure(t, s, "r", llmConfig(local(), local())) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			hooked := &hookedStore{Memory: store.NewMemory(time.Now)}
			s := newService(t, Options{Store: hooked, Local: answers(goodAnswer)})
			configure(t, s, "r", llmConfig(local()))
			hooked.after = func() {
				if err := s.CloseSession(t.Context(), "r"); err != nil {
					t.Error(err)
				}
				c.after(t, s)
			}
			if _, err := s.Coach(t.Context(), newRequest("r", "c")); !errors.Is(err, ErrUnknown) {
				t.Errorf("Coach: %v, want ErrUnknown", err)
			}
			if n, _ := hooked.Count(t.Context()); len(s.sessions) != n {
				t.Errorf("%d sessions run, %d exist", len(s.sessions), n)
			}
		})
	}
}

func TestClosedServiceRejectsEverything(t *testing.T) {
	s := newService(t, Options{Local: answers(goodAnswer)})
	configure(t, s, "r", llmConfig(local()))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Configure(t.Context(), "q", llmConfig(local())); !errors.Is(err, ErrShutdown) {
		t.Errorf("Configure: %v, want ErrShutdown", err)
	}
	if _, err := s.Coach(t.Context(), newRequest("r", "c")); !errors.Is(err, ErrShutdown) {
		t.Errorf("Coach: %v, want ErrShutdown", err)
	}
	if err := s.CloseSession(t.Context(), "r"); !errors.Is(err, ErrShutdown) {
		t.Errorf("CloseSession: %v, want ErrShutdown", err)
	}
}

func TestCloseAbortsHangingRequestsAtDeadline(t *testing.T) {
	asked := make(chan struct{})
	s := newService(t, Options{Local: modelFunc(func(ctx context.Context, _ backend.Question) (backend.Answer, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return backend.Answer{}, ctx.Err()
	})})
	configure(t, s, "r", llmConfig(local()))
	answered := make(chan *protocol.SpecializedCoachingResponse, 1)
	go func() { answered <- mustCoach(t, s, newRequest("r", "c")) }()
	receive(t, asked, "the question")
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := s.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v, want its context's error", err)
	}
	res := receive(t, answered, "the answer")
	if res.Status != protocol.CoachingFailed || res.Reason == "" {
		t.Errorf("the broken-off request is %s %q, want an error with a reason", res.Status, res.Reason)
	}
}
