package coaching

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"agentd/coaching/backend"
	"agentd/coaching/internal/scriptedtest"
	"agentd/protocol"
)

func TestConfigureReachable(t *testing.T) {
	for name, c := range map[string]struct {
		backends func(good string) []protocol.CoachingBackend
		says     []string // nil: the session is configured
	}{
		"all answer": {func(good string) []protocol.CoachingBackend {
			return []protocol.CoachingBackend{openai("a", good), openai("b", good)}
		}, nil},
		"one of several does not": {func(good string) []protocol.CoachingBackend {
			return []protocol.CoachingBackend{openai("a", good), openai("b", "http://"+closedPort)}
		}, []string{`"b": cannot reach the model`}},
		"none does": {func(string) []protocol.CoachingBackend {
			return []protocol.CoachingBackend{openai("a", "http://"+closedPort), openai("b", "http://"+closedPort)}
		}, []string{`"a": cannot reach the model`, `; "b": cannot reach the model`}},
		"the server's own model is not asked": {func(string) []protocol.CoachingBackend {
			return []protocol.CoachingBackend{local()}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			script := scriptedtest.New(t, says("{}"))
			s := newService(t, Options{Local: modelFunc(func(context.Context, backend.Question) (backend.Answer, error) {
				panic("the server's own model was asked")
			})})
			err := s.ConfigureReachable(t.Context(), "r", llmConfig(c.backends(script.URL)...))
			var unreachable *UnreachableError
			if got := errors.As(err, &unreachable); got != (c.says != nil) || !got && err != nil {
				t.Fatalf("got %v", err)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
			if exists := state(t, s, "r") != ""; exists != (c.says == nil) {
				t.Errorf("the session exists: %t", exists)
			}
		})
	}
}

// TestExistingSessionIsNotTestedAgain: the answer does not depend on its coaches.
func TestExistingSessionIsNotTestedAgain(t *testing.T) {
	script := scriptedtest.New(t, says("{}"), fails(500))
	s := newService(t, Options{})
	cfg := llmConfig(openai("a", script.URL))
	for range 2 {
		if err := s.ConfigureReachable(t.Context(), "r", cfg); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ConfigureReachable(t.Context(), "r", llmConfig(openai("b", script.URL))); !errors.Is(err, ErrConflict) {
		t.Errorf("another configuration: %v", err)
	}
	if n := script.Asked(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

func TestReachErrorHidesKeys(t *testing.T) {
	script := scriptedtest.New(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "wrong key "+secret, http.StatusForbidden) })
	b := openai("a", script.URL)
	b.Headers = protocol.Headers{"Authorization": "Bearer " + secret}
	s := newService(t, Options{})
	err := s.ConfigureReachable(t.Context(), "r", llmConfig(b))
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "wrong key ***") {
		t.Errorf("got %v", err)
	}
}

func TestForbiddenBackendIsNotCalled(t *testing.T) {
	script := scriptedtest.New(t, says("{}"))
	s := newService(t, Options{})
	b := openai("a", script.URL)
	b.Headers = protocol.Headers{"Host": "elsewhere"}
	var problems protocol.Problems
	if err := s.ConfigureReachable(t.Context(), "r", llmConfig(b)); !errors.As(err, &problems) || script.Asked() != 0 {
		t.Errorf("got %v after %d calls", err, script.Asked())
	}
}

// TestReachEndsWithCallerAndService, and either leaves no session.
func TestReachEndsWithCallerAndService(t *testing.T) {
	arrived := make(chan struct{}, 1)
	script := scriptedtest.New(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		hangs(t.Context().Done())(w, r)
	})
	s := newService(t, Options{MaxSessions: 1})
	configure := func(ctx context.Context) <-chan error {
		done := make(chan error, 1)
		go func() { done <- s.ConfigureReachable(ctx, "r", llmConfig(openai("a", script.URL))) }()
		receive(t, arrived, "the test call")
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := configure(ctx)
	var full *FullError
	if err := s.ConfigureReachable(t.Context(), "q", llmConfig(openai("a", script.URL))); !errors.As(err, &full) {
		t.Errorf("beside as many tests as there may be sessions: %v", err)
	}
	cancel()
	if err := receive(t, done, "the caller's end"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}

	done = configure(t.Context())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = s.Close(ended) // its error is that of ended
	if err := receive(t, done, "the service's end"); !errors.Is(err, ErrShutdown) {
		t.Errorf("got %v", err)
	}
	if state(t, s, "r") != "" {
		t.Error("the session exists")
	}
	if err := s.ConfigureReachable(t.Context(), "r", llmConfig(openai("a", script.URL))); !errors.Is(err, ErrShutdown) {
		t.Errorf("after the end: %v", err)
	}
}
