package coaching

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"agentd/coaching/egress"
	"agentd/coaching/internal/scriptedtest"
	"agentd/coaching/store"
	"agentd/protocol"
)

func TestOperatorPeopleBesideBackends(t *testing.T) {
	skipped := protocol.HumanCoachingResponse{Status: protocol.HumanSkipped, Error: "the person said no"}
	aborted := protocol.HumanCoachingResponse{Status: protocol.HumanAborted, Error: "the page is broken"}
	invalid := protocol.HumanCoachingResponse{Status: protocol.HumanCompleted, Output: text(`{"say":"","action":{"arm":{"name":"fly","arguments":{}}}}`)}
	for name, c := range map[string]struct {
		when     string
		person   *protocol.HumanCoachingResponse // nil: nobody listens
		model    http.HandlerFunc
		status   string
		reasons  []string
		tasks    int   // that people saw
		asked    int64 // times that the backend was
		provider string
	}{
		"first, a person corrects":             {PeopleFirst, &personSays, says(goodAnswer), protocol.CoachingCorrected, nil, 1, 0, "human"},
		"first is the default":                 {"", &personSays, says(goodAnswer), protocol.CoachingCorrected, nil, 1, 0, "human"},
		"first, a person says no":              {PeopleFirst, &skipped, says(goodAnswer), protocol.CoachingAbandoned, []string{"said no"}, 1, 0, "human"},
		"first, a person aborts":               {PeopleFirst, &aborted, says(goodAnswer), protocol.CoachingCorrected, nil, 1, 1, "llm"},
		"first, a person's answer is invalid":  {PeopleFirst, &invalid, says(goodAnswer), protocol.CoachingCorrected, nil, 1, 1, "llm"},
		"first, people cannot be reached":      {PeopleFirst, nil, says(goodAnswer), protocol.CoachingCorrected, nil, 0, 1, "llm"},
		"first, unreachable":                   {PeopleFirst, nil, fails(403), protocol.CoachingFailed, []string{"cannot be reached", "403"}, 0, 1, "llm"},
		"first, without a valid answer":        {PeopleFirst, &invalid, fails(403), protocol.CoachingAbandoned, []string{"fly", "403"}, 1, 1, "llm"},
		"first, unreachable, a model declines": {PeopleFirst, nil, says(declinedAnswer), protocol.CoachingAbandoned, []string{"cannot be reached", "Nobody knows"}, 0, 1, "llm"},
		"failed, a model corrects":             {PeopleFailed, &personSays, says(goodAnswer), protocol.CoachingCorrected, nil, 0, 1, "llm"},
		"failed, a model declines":             {PeopleFailed, &personSays, says(declinedAnswer), protocol.CoachingCorrected, nil, 1, 1, "human"},
		"failed, a model cannot be reached":    {PeopleFailed, &personSays, fails(403), protocol.CoachingCorrected, nil, 1, 1, "human"},
		"failed, then a person says no":        {PeopleFailed, &skipped, fails(403), protocol.CoachingAbandoned, []string{"403", "said no"}, 1, 1, "human"},
		"failed, then a person aborts":         {PeopleFailed, &aborted, fails(403), protocol.CoachingFailed, []string{"403", "page is broken"}, 1, 1, "llm"},
	} {
		t.Run(name, func(t *testing.T) {
			p, script, registry := newPeople(t), scriptedtest.New(t, c.model), prometheus.NewRegistry()
			endpoint := p.URL
			if c.person == nil {
				endpoint = "http://" + closedPort
			}
			s := newService(t, Options{People: People{endpoint, c.when}, Registerer: registry})
			configure(t, s, "r", llmConfig(openai("model", script.URL)))
			done := ask(t.Context(), s, newRequest("r", "c"))
			if c.tasks > 0 {
				p.wait(t, func() bool { return p.connections() == 1 })
				p.answerAll(*c.person)
			}
			got := receive(t, done, "the answer")
			if got.err != nil || got.res.Status != c.status {
				t.Fatalf("%+v, %v; want %s", got.res, got.err, c.status)
			}
			for _, part := range c.reasons {
				if !strings.Contains(got.res.Reason, part) {
					t.Errorf("the reason lacks %q: %s", part, got.res.Reason)
				}
			}
			if p.count() != c.tasks || script.Asked() != c.asked {
				t.Errorf("people saw %d tasks and the model %d questions, want %d and %d", p.count(), script.Asked(), c.tasks, c.asked)
			}
			log := got.res.Logs[0].Content
			if strings.Contains(log, "## People at") != (c.tasks > 0 || c.person == nil) || strings.Contains(log, "## Coach") != (c.asked > 0) {
				t.Errorf("the log is\n%s", log)
			}
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if f.GetName() == "agentd_coaching_requests_total" && f.Metric[0].Label[1].GetValue() != c.provider {
					t.Errorf("counted for %s, want %s", f.Metric[0].Label[1].GetValue(), c.provider)
				}
			}
		})
	}
}

func TestHumanSessionKeepsItsOwnEndpoint(t *testing.T) {
	own, others := newPeople(t), newPeople(t)
	s := newService(t, Options{People: People{Endpoint: others.URL}})
	configure(t, s, "r", humanConfig(own.URL))
	done := ask(t.Context(), s, newRequest("r", "c"))
	own.wait(t, func() bool { return own.count() == 1 })
	own.answerAll(personSays)
	if got := receive(t, done, "the answer"); got.err != nil || got.res.Status != protocol.CoachingCorrected || others.count() != 0 {
		t.Errorf("%v, %v, and the operator's people saw %d tasks", got.res, got.err, others.count())
	}
}

func TestOperatorPeopleMayHavePrivateAddress(t *testing.T) {
	p := newPeople(t)
	policy, err := egress.NewPolicy([]string{"coach.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	s := newService(t, Options{Policy: policy, Local: answers(goodAnswer), People: People{Endpoint: p.URL}})
	if err := s.Configure(t.Context(), "x", humanConfig(p.URL)); err == nil {
		t.Error("a client may name the endpoint, so that this test shows nothing")
	}
	configure(t, s, "r", llmConfig(local()))
	done := ask(t.Context(), s, newRequest("r", "c"))
	p.wait(t, func() bool { return p.count() == 1 })
	p.answerAll(personSays)
	if got := receive(t, done, "the answer"); got.err != nil || got.res.Status != protocol.CoachingCorrected {
		t.Errorf("%v, %v", got.res, got.err)
	}
}

func TestClosingSessionWithdrawsOperatorPeopleTasks(t *testing.T) {
	for _, when := range []string{PeopleFirst, PeopleFailed} {
		t.Run(when, func(t *testing.T) {
			p, script := newPeople(t), scriptedtest.New(t, fails(403))
			s := newService(t, Options{People: People{p.URL, when}})
			configure(t, s, "r", llmConfig(openai("model", script.URL)))
			check := nothingLeft(t)
			done := ask(t.Context(), s, newRequest("r", "c"))
			p.wait(t, func() bool { return p.connections() == 1 })
			asked := script.Asked()
			if err := s.CloseSession(t.Context(), "r"); err != nil {
				t.Fatal(err)
			}
			got := receive(t, done, "the answer")
			if got.err != nil || got.res.Status != protocol.CoachingAbandoned || !strings.Contains(got.res.Reason, "withdrawn") {
				t.Errorf("%v, %v", got.res, got.err)
			}
			if len(p.withdrawn) != 1 || script.Asked() != asked {
				t.Errorf("withdrawn %v, and the model was asked %d times more", p.withdrawn, script.Asked()-asked)
			}
			p.wait(t, func() bool { return p.connections() == 0 })
			check()
		})
	}
}

func TestKeyInOperatorEndpointIsNowhere(t *testing.T) {
	var out output
	script := scriptedtest.New(t, fails(403))
	s := newService(t, Options{Log: zerolog.New(&out), Registerer: out.registry(), People: People{Endpoint: "http://" + closedPort + "?key=" + secret}})
	configure(t, s, "r", llmConfig(openai("model", script.URL)))
	out.mustNotHold(t, secret, mustCoach(t, s, newRequest("r", "c")))
}

func TestInvalidOperatorPeopleFailAtStart(t *testing.T) {
	for _, c := range []struct {
		people People
		want   string // "": fine
	}{
		{People{Endpoint: "http://127.0.0.1:8890"}, ""},
		{People{Endpoint: "https://people.example.org/console?key=x"}, ""},
		{People{Endpoint: "http://10.0.0.7:8890"}, ""},
		{People{Endpoint: "http://[fd00::7]:8890"}, ""},
		{People{Endpoint: "127.0.0.1:8890"}, "http"},
		{People{Endpoint: "ftp://people.example.org"}, "http"},
		{People{Endpoint: "http://"}, "host"},
		{People{Endpoint: "http://user:pass@people.example.org"}, "user name"},
		{People{Endpoint: "http://169.254.169.254"}, "never allowed"},
		{People{Endpoint: "http://people.example.org#x"}, "fragment"},
		{People{Endpoint: "http://127.0.0.1:8890", When: "last"}, "first"},
	} {
		err := c.people.Check()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "pass@")) {
			t.Errorf("%+v: %v, want %q", c.people, err, c.want)
		}
		s, err := New(Options{People: c.people})
		if (err == nil) != (c.want == "") {
			t.Errorf("%+v: New: %v", c.people, err)
		}
		if err == nil {
			_ = s.Close(t.Context())
		}
	}
}

func TestRepeatedRequestGetsTheSameAnswer(t *testing.T) {
	t.Run("of a model", func(t *testing.T) {
		script := scriptedtest.New(t, says(goodAnswer), says(declinedAnswer))
		s := newService(t, Options{})
		configure(t, s, "r", llmConfig(openai("model", script.URL)))
		first, again := mustCoach(t, s, newRequest("r", "c")), mustCoach(t, s, newRequest("r", "c"))
		if string(first.AppendJSON(nil)) != string(again.AppendJSON(nil)) || first.Status != protocol.CoachingCorrected || script.Asked() != 1 {
			t.Errorf("%s\nand then %s, asked %d times", first.AppendJSON(nil), again.AppendJSON(nil), script.Asked())
		}
		if other := mustCoach(t, s, newRequest("r", "d")); other.Status != protocol.CoachingAbandoned || script.Asked() != 2 {
			t.Errorf("another request: %s", other.AppendJSON(nil))
		}
		if err := s.CloseSession(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		if used := s.answerBytes.Used(); used != 0 {
			t.Errorf("%d bytes of responses are left of a session that is closed", used)
		}
		configure(t, s, "r", llmConfig(openai("model", script.URL)))
		if mustCoach(t, s, newRequest("r", "c")); script.Asked() != 3 {
			t.Error("another session of the run has answers of the one before")
		}
	})
	for name, answer := range map[string]protocol.HumanCoachingResponse{
		"that a person corrected": personSays,
		"that a person skipped":   {Status: protocol.HumanSkipped, Error: "no"},
		"that a person aborted":   {Status: protocol.HumanAborted, Error: "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := newPeople(t), newService(t, Options{})
			configure(t, s, "r", humanConfig(p.URL))
			done := ask(t.Context(), s, newRequest("r", "c"))
			p.wait(t, func() bool { return p.connections() == 1 })
			p.answerAll(answer)
			first, again := receive(t, done, "the answer"), mustCoach(t, s, newRequest("r", "c"))
			if first.err != nil || string(first.res.AppendJSON(nil)) != string(again.AppendJSON(nil)) || len(p.requests) != 1 {
				t.Errorf("%+v and then %s, posted %d times", first, again.AppendJSON(nil), len(p.requests))
			}
		})
	}
	t.Run("that is in progress", func(t *testing.T) {
		m, asked, answer := busyModel()
		s := newService(t, Options{Local: m})
		configure(t, s, "r", llmConfig(local()))
		ctx, leave := context.WithCancel(t.Context())
		first := ask(ctx, s, newRequest("r", "c"))
		receive(t, asked, "the question")
		second, third := ask(t.Context(), s, newRequest("r", "c")), ask(t.Context(), s, newRequest("r", "c"))
		waitFor(t, func() bool { return callers(s) == 3 })
		leave() // one of the others asks in its place
		if got := receive(t, first, "the end"); !errors.Is(got.err, context.Canceled) {
			t.Errorf("the first: %v", got.err)
		}
		receive(t, asked, "the question of another caller")
		answer <- struct{}{}
		a, b := receive(t, second, "the answer"), receive(t, third, "the answer")
		if a.err != nil || b.err != nil || string(a.res.AppendJSON(nil)) != string(b.res.AppendJSON(nil)) {
			t.Errorf("%+v and %+v", a, b)
		}
	})
	t.Run("is asked again after no answer", func(t *testing.T) {
		script := scriptedtest.New(t, fails(403), says(goodAnswer))
		s := newService(t, Options{})
		configure(t, s, "r", llmConfig(openai("model", script.URL)))
		if res := mustCoach(t, s, newRequest("r", "c")); res.Status != protocol.CoachingFailed {
			t.Errorf("%s", res.AppendJSON(nil))
		}
		if res := mustCoach(t, s, newRequest("r", "c")); res.Status != protocol.CoachingCorrected {
			t.Errorf("%s", res.AppendJSON(nil))
		}
	})
}

// leftTask is a store with a session of a server that has crashed. People have a task of it.
type leftTask struct{ *store.Memory }

func (s leftTask) MarkClosing(ctx context.Context, runID string) (*store.Record, error) {
	rec, err := s.Memory.MarkClosing(ctx, runID)
	rec.Unanswered = []string{"task"}
	return rec, err
}

func TestTaskIsWithdrawnWhileTheModelLoads(t *testing.T) {
	p, left := newPeople(t), leftTask{store.NewMemory(time.Now)}
	rec := store.Record{ID: uuid.New(), RunID: "r", Config: llmConfig(local()), State: store.Configured}
	if _, err := left.Create(t.Context(), rec, 0); err != nil {
		t.Fatal(err)
	}
	s := newService(t, Options{Store: left, People: People{Endpoint: p.URL}})
	if err := s.CloseSession(t.Context(), "r"); err != nil || len(p.withdrawn) != 1 {
		t.Errorf("%v, withdrawn %v, want one task", err, p.withdrawn)
	}
}
