package coaching

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"agentd/coaching/internal/scriptedtest"
	"agentd/protocol"
)

// descriptors is how many file descriptors the process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// nothingLeft returns a check that every goroutine and descriptor since then is
// gone. The other ends of connections, in servers of the test, take a moment.
func nothingLeft(t *testing.T) (check func()) {
	t.Helper()
	running := goleak.IgnoreCurrent()
	before := descriptors(t)
	return func() {
		t.Helper()
		waitFor(t, func() bool { return descriptors(t) <= before })
		waitFor(t, func() bool { return goleak.Find(running) == nil })
	}
}

// TestDeleteLeavesNothing looks at goroutines and descriptors while the
// service and the server at the other end go on.
func TestDeleteLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		use  func(t *testing.T, s *Service, plain, secure *httptest.Server)
	}{
		{"a session that was never used", func(t *testing.T, s *Service, plain, _ *httptest.Server) {
			configure(t, s, "r", llmConfig(openai("gpt", plain.URL)))
		}},
		{"many requests at once", func(t *testing.T, s *Service, plain, _ *httptest.Server) {
			configure(t, s, "r", llmConfig(openai("gpt", plain.URL)))
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() { mustCoach(t, s, newRequest("r", fmt.Sprint(i))) })
			}
			all.Wait()
			if before := descriptors(t); before == 0 {
				t.Error("no descriptors can be seen")
			}
		}},
		{"TLS, with its own goroutines", func(t *testing.T, s *Service, _, secure *httptest.Server) {
			configure(t, s, "r", llmConfig(openai("gpt", secure.URL)))
			mustCoach(t, s, newRequest("r", "c"))
		}},
		{"a caller who left", func(t *testing.T, s *Service, plain, _ *httptest.Server) {
			configure(t, s, "r", llmConfig(openai("gpt", plain.URL+"/hang")))
			ctx, leave := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := s.Coach(ctx, newRequest("r", "c"))
				done <- err
			}()
			waitFor(t, func() bool { return inWork(s) == 1 })
			leave()
			if err := receive(t, done, "the end of the request"); !errors.Is(err, context.Canceled) {
				t.Errorf("Coach: %v, want its context's error", err)
			}
		}},
		{"people who never answer", func(t *testing.T, s *Service, plain, _ *httptest.Server) {
			configure(t, s, "r", humanConfig(plain.URL+"/hang"))
			for i := range 5 {
				ctx, leave := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = s.Coach(ctx, newRequest("r", fmt.Sprint(i)))
				}()
				waitFor(t, func() bool { return inWork(s) == i+1 })
				leave()
				receive(t, done, "the end of the request")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			stop := make(chan struct{})
			handler := http.NewServeMux()
			handler.HandleFunc("/hang/", hangs(stop))
			handler.HandleFunc("DELETE /hang/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
			handler.HandleFunc("/", says(goodAnswer))
			plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
			secure.EnableHTTP2 = true
			secure.StartTLS()
			defer plain.Close()
			defer secure.Close()
			defer close(stop)
			o := Options{}
			o.Egress.RootCAs = secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			s := newService(t, o)
			check := nothingLeft(t)
			c.use(t, s, plain, secure)
			if err := s.CloseSession(t.Context(), "r"); err != nil {
				t.Fatal(err)
			}
			check()
			if len(s.sessions) != 0 {
				t.Errorf("%d sessions still run", len(s.sessions))
			}
		})
	}
}

// inWork is how many tasks for people and requests are in the service's
// sessions, whoever of their callers left.
func inWork(s *Service) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sess := range s.sessions {
		n += max(sess.InProgress())
	}
	return n
}

// TestSessionsSideBySide runs many sessions with many requests each, whose coach
// fails and is busy now and then, and closes each while others run.
func TestSessionsSideBySide(t *testing.T) {
	const sessions, requests = 100, 10
	check := nothingLeft(t)
	good := says(goodAnswer)
	var asked atomic.Int64
	script := scriptedtest.New(t, func(w http.ResponseWriter, r *http.Request) {
		switch n := asked.Add(1); {
		case n%7 == 0:
			fails(http.StatusInternalServerError)(w, r)
		case n%11 == 0:
			fails(http.StatusTooManyRequests, "Retry-After", "1")(w, r)
		default:
			good(w, r)
		}
	})
	s := newService(t, Options{Workers: 3, Queue: requests})
	var all sync.WaitGroup
	for i := range sessions {
		all.Go(func() {
			run := fmt.Sprintf("run %d", i)
			b := openai("gpt", script.URL)
			b.MaxRetry = 1000 // until it succeeds
			b.Headers = protocol.Headers{"Authorization": "Bearer of session " + run}
			if err := s.Configure(t.Context(), run, llmConfig(b)); err != nil {
				t.Error(err)
				return
			}
			var own sync.WaitGroup
			for j := range requests {
				own.Go(func() {
					id := fmt.Sprintf("request %d", j)
					res, err := s.Coach(t.Context(), newRequest(run, id))
					if err != nil {
						t.Error(err)
						return
					}
					if res.RequestID != id || res.Status != protocol.CoachingCorrected || string(res.Proposals[0].ExtraKeys) != goodProposal {
						t.Errorf("%s of %s: %s", id, run, res.AppendJSON(nil))
					}
				})
			}
			own.Wait()
			if err := s.CloseSession(t.Context(), run); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, _ := s.opts.Store.Count(t.Context()); n != 0 || len(s.sessions) != 0 {
		t.Errorf("%d sessions in the store and %d running, want none", n, len(s.sessions))
	}
	script.Close()
	check()
}
