package coaching

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"agentd/coaching/coach"
	"agentd/coaching/internal/scriptedtest"
	"agentd/protocol"
)

// peopleServer is an endpoint where people work: tasks wait until the test answers
// them, and the answer is there for whoever posts the same id again.
type peopleServer struct {
	*httptest.Server
	mu        sync.Mutex
	waiting   map[string]int // connections by task
	answers   map[string]func(id string) *protocol.HumanCoachingResponse
	posted    map[string]int // times by task
	requests  []*protocol.HumanCoachingRequest
	withdrawn []string
	changed   *sync.Cond
	restarts  int  // the next posts that are broken off
	stubborn  bool // refuses to withdraw
}

func newPeople(t *testing.T) *peopleServer {
	t.Helper()
	return newPeopleAt(t, "127.0.0.1:0")
}

func newPeopleAt(t *testing.T, address string) *peopleServer {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := &peopleServer{
		waiting: make(map[string]int), posted: make(map[string]int),
		answers: make(map[string]func(string) *protocol.HumanCoachingResponse),
	}
	p.changed = sync.NewCond(&p.mu)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/coaching/requests", p.post)
	mux.HandleFunc("DELETE /v1/coaching/requests/{id}", p.withdraw)
	p.Server = httptest.NewUnstartedServer(mux)
	_ = p.Listener.Close()
	p.Listener = listener
	p.Config.ErrorLog = discardLog()
	p.Start()
	t.Cleanup(p.Close)
	return p
}

func (p *peopleServer) post(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	task, err := protocol.DecodeHumanCoachingRequest(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	stop := context.AfterFunc(r.Context(), func() {
		p.mu.Lock() // else it might come between a look at the context and the wait
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posted[task.RequestID]++
	p.requests = append(p.requests, task)
	p.waiting[task.RequestID]++
	p.changed.Broadcast()
	defer func() {
		p.waiting[task.RequestID]--
		p.changed.Broadcast()
	}()
	if p.restarts > 0 {
		p.restarts--
		panic(http.ErrAbortHandler)
	}
	for p.answers[task.RequestID] == nil {
		if r.Context().Err() != nil {
			return
		}
		p.changed.Wait()
	}
	_, _ = w.Write(p.answers[task.RequestID](task.RequestID).AppendJSON(nil))
}

func (p *peopleServer) withdraw(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.withdrawn = append(p.withdrawn, r.PathValue("id"))
	if p.stubborn {
		http.Error(w, `{"detail":"not now"}`, http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// wait waits until the tasks are as a test wants them.
func (p *peopleServer) wait(t *testing.T, what func() bool) {
	t.Helper()
	waitFor(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return what()
	})
}

// answerAll answers every task, those to come included.
func (p *peopleServer) answerAll(a protocol.HumanCoachingResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.posted {
		p.answers[id] = func(id string) *protocol.HumanCoachingResponse {
			a.RequestID = id
			return &a
		}
	}
	p.changed.Broadcast()
}

// count is the number of different tasks.
func (p *peopleServer) count() int { return len(p.posted) }

func (p *peopleServer) connections() (n int) {
	for _, each := range p.waiting {
		n += each
	}
	return n
}

func text(s string) *string { return &s }

var personSays = protocol.HumanCoachingResponse{
	Status: protocol.HumanCompleted, Output: text(`{"say":"I look in the kitchen.","action":{}}`),
}

// ask begins a request and returns how it ends.
func ask(ctx context.Context, s *Service, req *protocol.SpecializedCoachingRequest) <-chan answered {
	done := make(chan answered, 1)
	go func() {
		res, err := s.Coach(ctx, req)
		done <- answered{res, err}
	}()
	return done
}

type answered struct {
	res *protocol.SpecializedCoachingResponse
	err error
}

func TestHumanAnswersBecomeResponses(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer protocol.HumanCoachingResponse
		status string
		reason string // must be part of it
	}{
		{"a decision", personSays, protocol.CoachingCorrected, ""},
		{"a call that fits", protocol.HumanCoachingResponse{Status: protocol.HumanCompleted,
			Output: text(`{"say":"","action":{"arm":{"name":"move","arguments":{"place":"kitchen"}}}}`)}, protocol.CoachingCorrected, ""},
		{"a call of an unknown tool", protocol.HumanCoachingResponse{Status: protocol.HumanCompleted,
			Output: text(`{"say":"","action":{"arm":{"name":"fly","arguments":{}}}}`)}, protocol.CoachingAbandoned, "fly"},
		{"no JSON", protocol.HumanCoachingResponse{Status: protocol.HumanCompleted, Output: text(`just go there`)}, protocol.CoachingAbandoned, "not a valid correction"},
		{"skipped", protocol.HumanCoachingResponse{Status: protocol.HumanSkipped, Error: "nothing can be done here"}, protocol.CoachingAbandoned, "nothing can be done here"},
		{"aborted", protocol.HumanCoachingResponse{Status: protocol.HumanAborted, Error: "the data is broken"}, protocol.CoachingFailed, "the data is broken"},
		{"a broken answer", protocol.HumanCoachingResponse{Status: "done"}, protocol.CoachingFailed, "protocol"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := newPeople(t), newService(t, Options{})
			configure(t, s, "r", humanConfig(p.URL))
			done := ask(t.Context(), s, newRequest("r", "c"))
			p.wait(t, func() bool { return p.count() == 1 })
			p.answerAll(c.answer)
			got := receive(t, done, "the answer")
			if got.err != nil {
				t.Fatal(got.err)
			}
			if got.res.Status != c.status || !strings.Contains(got.res.Reason, c.reason) {
				t.Errorf("%s %q, want %s with %q", got.res.Status, got.res.Reason, c.status, c.reason)
			}
			if len(got.res.Logs) != 1 || !strings.Contains(got.res.Logs[0].Content, "## People at `"+p.URL) {
				t.Errorf("logs are %v", got.res.Logs)
			}
		})
	}
}

func TestSameRequestJoinsTheSameTask(t *testing.T) {
	p, s := newPeople(t), newService(t, Options{})
	configure(t, s, "r", humanConfig(p.URL))
	first, second := ask(t.Context(), s, newRequest("r", "c")), ask(t.Context(), s, newRequest("r", "c"))
	other := requestOf("r", "c", protocol.CoachingSuboptimal, `{"id":"p","input_step_id":7}`)
	third := ask(t.Context(), s, other)
	waitFor(t, func() bool { return inWork(s) == 3 })
	p.wait(t, func() bool { return p.count() == 2 && p.connections() == 2 })
	if n := s.countTasks(); n != 2 {
		t.Errorf("the metric has %v tasks, want 2", n)
	}
	p.answerAll(personSays)
	for _, done := range []<-chan answered{first, second, third} {
		if got := receive(t, done, "the answer"); got.err != nil || got.res.Status != protocol.CoachingCorrected {
			t.Errorf("%v, %v", got.res, got.err)
		}
	}
	if p.count() != 2 {
		t.Errorf("people saw %d tasks, want one for each different request", p.count())
	}
}

func TestHumanTasks(t *testing.T) {
	t.Run("a caller that leaves does not withdraw, and finds the task again", func(t *testing.T) {
		p, s := newPeople(t), newService(t, Options{})
		configure(t, s, "r", humanConfig(p.URL))
		ctx, leave := context.WithCancel(t.Context())
		first := ask(ctx, s, newRequest("r", "c"))
		p.wait(t, func() bool { return p.connections() == 1 })
		leave()
		if got := receive(t, first, "the end"); !errors.Is(got.err, context.Canceled) {
			t.Errorf("Coach: %v, want its context's error", got.err)
		}
		second := ask(t.Context(), s, newRequest("r", "c"))
		waitFor(t, func() bool { return callers(s) == 1 })
		p.answerAll(personSays)
		if got := receive(t, second, "the answer"); got.err != nil || got.res.Status != protocol.CoachingCorrected {
			t.Errorf("%v, %v", got.res, got.err)
		}
		if len(p.requests) != 1 || len(p.withdrawn) != 0 {
			t.Errorf("posted %d times and withdrawn %v, want once and never", len(p.requests), p.withdrawn)
		}
	})
	t.Run("an answer without a waiting caller is kept", func(t *testing.T) {
		p, s := newPeople(t), newService(t, Options{})
		configure(t, s, "r", humanConfig(p.URL))
		ctx, leave := context.WithCancel(t.Context())
		first := ask(ctx, s, newRequest("r", "c"))
		p.wait(t, func() bool { return p.connections() == 1 })
		leave()
		receive(t, first, "the end")
		p.answerAll(personSays)
		waitFor(t, func() bool { return inWork(s) == 0 })
		p.Close() // whoever asks now gets no answer from there
		if got := receive(t, ask(t.Context(), s, newRequest("r", "c")), "the answer"); got.err != nil || got.res.Status != protocol.CoachingCorrected {
			t.Errorf("%v, %v", got.res, got.err)
		}
	})
	t.Run("closing withdraws waiting tasks", func(t *testing.T) {
		p, s := newPeople(t), newService(t, Options{})
		configure(t, s, "r", humanConfig(p.URL))
		check := nothingLeft(t)
		first, second := ask(t.Context(), s, newRequest("r", "a")), ask(t.Context(), s, newRequest("r", "b"))
		p.wait(t, func() bool { return p.connections() == 2 })
		ctx, leave := context.WithCancel(t.Context())
		leave() // the caller of DELETE does not wait, which changes nothing
		if err := s.CloseSession(ctx, "r"); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("CloseSession: %v, want its context's error unless all is done already", err)
		}
		for _, done := range []<-chan answered{first, second} {
			got := receive(t, done, "the answer")
			if got.err != nil || got.res.Status != protocol.CoachingAbandoned || !strings.Contains(got.res.Reason, "withdrawn") {
				t.Errorf("%v, %v; want abandoned since the task was withdrawn", got.res, got.err)
			}
		}
		waitFor(t, func() bool { return state(t, s, "r") == "" })
		p.wait(t, func() bool { return p.connections() == 0 })
		if len(p.withdrawn) != 2 || p.posted[p.withdrawn[0]] != 1 || p.posted[p.withdrawn[1]] != 1 || p.withdrawn[0] == p.withdrawn[1] {
			t.Errorf("withdrawn %v, want both tasks", p.withdrawn)
		}
		check()
	})
	t.Run("closing does not wait for a stubborn endpoint", func(t *testing.T) {
		p, s := newPeople(t), newService(t, Options{})
		p.stubborn = true
		configure(t, s, "r", humanConfig(p.URL))
		done := ask(t.Context(), s, newRequest("r", "c"))
		p.wait(t, func() bool { return p.connections() == 1 })
		if err := s.CloseSession(t.Context(), "r"); err != nil {
			t.Error(err)
		}
		if got := receive(t, done, "the answer"); got.err != nil || got.res.Status != protocol.CoachingAbandoned {
			t.Errorf("%v, %v", got.res, got.err)
		}
		if len(p.withdrawn) != 1 {
			t.Errorf("withdrawn %v, want one try", p.withdrawn)
		}
	})
	t.Run("shutting down withdraws tasks", func(t *testing.T) {
		p, s := newPeople(t), newService(t, Options{})
		configure(t, s, "r", humanConfig(p.URL))
		done := ask(t.Context(), s, newRequest("r", "c"))
		p.wait(t, func() bool { return p.connections() == 1 })
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := receive(t, done, "the answer"); got.err != nil || got.res.Status != protocol.CoachingAbandoned {
			t.Errorf("%v, %v", got.res, got.err)
		}
		if len(p.withdrawn) != 1 {
			t.Errorf("withdrawn %v, want the task", p.withdrawn)
		}
	})
	t.Run("a key in the endpoint's query is nowhere", func(t *testing.T) {
		var out output
		p, s := newPeople(t), newService(t, Options{Log: zerolog.New(&out), Registerer: out.registry()})
		p.restarts, p.stubborn = 1, true
		configure(t, s, "r", humanConfig(p.URL+"?key="+secret))
		done := ask(t.Context(), s, newRequest("r", "c"))
		p.wait(t, func() bool { return p.connections() == 1 && len(p.requests) == 2 })
		if err := s.CloseSession(t.Context(), "r"); err != nil {
			t.Error(err)
		}
		got := receive(t, done, "the answer")
		if got.err != nil {
			t.Fatal(got.err)
		}
		configure(t, s, "r", humanConfig("http://"+closedPort+"?key="+secret))
		out.mustNotHold(t, secret, got.res, mustCoach(t, s, newRequest("r", "c")))
	})
	t.Run("the endpoint restarts in the middle", func(t *testing.T) {
		p, s := newPeople(t), newService(t, Options{})
		p.restarts = 2
		configure(t, s, "r", humanConfig(p.URL))
		done := ask(t.Context(), s, newRequest("r", "c"))
		p.wait(t, func() bool { return len(p.requests) == 3 && p.connections() == 1 })
		if p.count() != 1 {
			t.Errorf("%d tasks, want one that is posted again", p.count())
		}
		p.CloseClientConnections() // and once more, while the person works
		p.wait(t, func() bool { return len(p.requests) == 4 && p.connections() == 1 })
		p.answerAll(personSays)
		if got := receive(t, done, "the answer"); got.err != nil || got.res.Status != protocol.CoachingCorrected {
			t.Errorf("%v, %v", got.res, got.err)
		}
	})
	t.Run("a failure is not kept: the same request asks again", func(t *testing.T) {
		script := scriptedtest.New(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		s := newService(t, Options{})
		configure(t, s, "r", humanConfig(script.URL))
		for n := int64(1); n <= 2; n++ {
			if res := mustCoach(t, s, newRequest("r", "c")); res.Status != protocol.CoachingFailed || !strings.Contains(res.Reason, "418") {
				t.Errorf("%s %q, want an error with the status", res.Status, res.Reason)
			}
			if script.Asked() != n {
				t.Errorf("asked %d times, want %d", script.Asked(), n)
			}
		}
	})
	t.Run("another session of the run has other tasks", func(t *testing.T) {
		p, s := newPeople(t), newService(t, Options{})
		for n := 1; n <= 2; n++ {
			configure(t, s, "r", humanConfig(p.URL))
			done := ask(t.Context(), s, newRequest("r", "c"))
			p.wait(t, func() bool { return p.count() == n && p.connections() == 1 })
			p.answerAll(personSays)
			receive(t, done, "the answer")
			if err := s.CloseSession(t.Context(), "r"); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("a closed port", func(t *testing.T) {
		s := newService(t, Options{})
		configure(t, s, "r", humanConfig("http://"+closedPort))
		if res := mustCoach(t, s, newRequest("r", "c")); res.Status != protocol.CoachingFailed || !strings.Contains(res.Reason, "cannot be reached") {
			t.Errorf("%s %q", res.Status, res.Reason)
		}
	})
}

// callers is how many callers wait in the service's sessions.
func callers(s *Service) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sess := range s.sessions {
		waiting, _ := sess.InProgress()
		n += waiting
	}
	return n
}

// TestUndeliveredAnswersAreBounded lets callers leave, so that their answers are
// kept, and looks whether the oldest ones go.
func TestUndeliveredAnswersAreBounded(t *testing.T) {
	p, s := newPeople(t), newService(t, Options{Queue: 2 * coach.MaxUndelivered})
	configure(t, s, "r", humanConfig(p.URL))
	const extra = 3
	for i := range coach.MaxUndelivered + extra {
		ctx, leave := context.WithCancel(t.Context())
		done := ask(ctx, s, newRequest("r", fmt.Sprint(i)))
		p.wait(t, func() bool { return p.connections() == 1 && p.count() == i+1 })
		leave()
		receive(t, done, "the end")
		p.answerAll(personSays)
		waitFor(t, func() bool { return inWork(s) == 0 })
	}
	// The last one is asked again, and its answer takes the place of another.
	for _, kept := range []struct{ id, posted int }{{extra + coach.MaxUndelivered - 1, 0}, {extra, 0}, {extra - 1, 1}} {
		before := len(p.requests)
		mustCoach(t, s, newRequest("r", fmt.Sprint(kept.id)))
		if got := len(p.requests) - before; got != kept.posted {
			t.Errorf("request %d was posted %d times more, want %d", kept.id, got, kept.posted)
		}
	}
}
