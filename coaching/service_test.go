package coaching

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"agentd/coaching/backend"
	"agentd/coaching/internal/scriptedtest"
	"agentd/protocol"
)

func TestConfigureRejectsForbiddenConfig(t *testing.T) {
	s := newService(t, Options{})
	for _, c := range []struct {
		name string
		cfg  func() *protocol.CoachingSessionConfig
		loc  string
	}{
		{"a metadata address", func() *protocol.CoachingSessionConfig {
			return llmConfig(openai("gpt", "http://169.254.169.254/latest"))
		}, "[body backends gpt endpoint]"},
		{"a private address of people", func() *protocol.CoachingSessionConfig { return humanConfig("http://10.0.0.1") }, "[body endpoint]"},
		{"a Host header", func() *protocol.CoachingSessionConfig {
			b := openai("gpt", "http://127.0.0.1:1")
			b.Headers = protocol.Headers{"Host": secret}
			return llmConfig(b)
		}, "[body backends gpt headers Host]"},
		{"an unknown type", func() *protocol.CoachingSessionConfig {
			b := openai("gpt", "http://127.0.0.1:1")
			b.Type = "oracle"
			return llmConfig(b)
		}, "[body backends gpt]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := s.Configure(t.Context(), "r", c.cfg())
			var problems protocol.Problems
			if !errors.As(err, &problems) || fmt.Sprint(problems[0].Loc) != c.loc || strings.Contains(problems.All(), secret) {
				t.Fatalf("%v, want a problem at %s", err, c.loc)
			}
			if state(t, s, "r") != "" {
				t.Error("the session exists")
			}
		})
	}
}

func TestRequestsThatNeedNoCoach(t *testing.T) {
	for _, provider := range []*protocol.CoachingSessionConfig{llmConfig(openai("gpt", "http://"+closedPort)), humanConfig("http://" + closedPort)} {
		s := newService(t, Options{})
		configure(t, s, "r", provider)
		res := mustCoach(t, s, requestOf("r", "c", protocol.CoachingFailure, ""))
		if res.Status != protocol.CoachingAbandoned || !strings.Contains(res.Reason, "no reinjection points") || len(res.Logs) != 1 {
			t.Errorf("without points: %s", res.AppendJSON(nil))
		}
	}
}

func TestFormatIsRepairedWithoutModelIfUnambiguous(t *testing.T) {
	const raw = `{"id":7,"input":{"id":1,"instruction":{"type":"user","content":"Bring the cup."},
		"tools":[{"name":"move","description":"Drive to a place","parameters":{"place":{"type":"string"}}}]},
		"error":{"code":"PARSE_ERROR","message":"not JSON"},"internal_steps":[{"type":"model","output_raw":%s}]}`
	for _, c := range []struct {
		name, raw string
		asked     int
	}{
		{"a comma too many", `{"say": "I look in the kitchen.", "tool_calls": [],}`, 0},
		{"a call of a tool that does not exist", `{"say":"","tool_calls":[{"name":"fly","arguments":{}}]}`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			s := newService(t, Options{Local: modelFunc(func(ctx context.Context, q backend.Question) (backend.Answer, error) {
				asked++
				return answers(goodAnswer)(ctx, q)
			})})
			configure(t, s, "r", llmConfig(local()))
			req, err := protocol.DecodeSpecializedCoachingRequest(fmt.Appendf(nil,
				`{"run_id":"r","request_id":"c","kind":"format","stage":"Bring the cup","target_step_id":7,"trajectory":[`+raw+`],"reinjection_points":[{"id":"p","input_step_id":7}]}`,
				protocol.String(c.raw)))
			if err != nil {
				t.Fatal(err)
			}
			res := mustCoach(t, s, req)
			if res.Status != protocol.CoachingCorrected || string(res.Proposals[0].ExtraKeys) != goodProposal {
				t.Errorf("%s", res.AppendJSON(nil))
			}
			if asked != c.asked || !strings.Contains(res.Logs[0].Content, "## Repair without a model") {
				t.Errorf("the model was asked %d times, want %d", asked, c.asked)
			}
		})
	}
}

func TestLocalModelMayLoadLater(t *testing.T) {
	s := newService(t, Options{})
	err := s.Configure(t.Context(), "r", llmConfig(local()))
	if problems := (protocol.Problems)(nil); !errors.As(err, &problems) || !strings.Contains(err.Error(), `body.backends.own: backend "own": the default model can't coach`) {
		t.Errorf("before: %v", err)
	}
	s.SetLocal(answers(goodAnswer))
	configure(t, s, "r", llmConfig(local()))
	if res := mustCoach(t, s, newRequest("r", "d")); res.Status != protocol.CoachingCorrected {
		t.Errorf("after: %s", res.AppendJSON(nil))
	}
}

func TestPanicLeavesNothingBehind(t *testing.T) {
	s := newService(t, Options{Workers: 1, Queue: -1, Local: modelFunc(func(context.Context, backend.Question) (backend.Answer, error) {
		panic("a bug")
	})})
	configure(t, s, "r", llmConfig(local()))
	for range 2 { // the second one finds the slot free
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not reach the caller, who reports it")
				}
			}()
			_, _ = s.Coach(t.Context(), newRequest("r", "c"))
		}()
	}
	if err := s.CloseSession(t.Context(), "r"); err != nil {
		t.Error(err)
	}
}

func TestEachCoachingIsLoggedWithKindAndResult(t *testing.T) {
	var log bytes.Buffer
	script := scriptedtest.New(t, fails(500), says(goodAnswer))
	s := newService(t, Options{Log: zerolog.New(&log)})
	configure(t, s, "r", llmConfig(openai("a", script.URL)))
	mustCoach(t, s, newRequest("r", "c"))
	empty := newRequest("r", "d")
	empty.ReinjectionPoints = nil
	mustCoach(t, s, empty)
	both := humanConfig("http://" + closedPort)
	both.Backends = []protocol.CoachingBackend{openai("a", script.URL)}
	configure(t, s, "q", both)
	for _, want := range []string{
		`"run_id":"r","request_id":"c","kind":"failure","provider":"llm","status":"corrected","reason":"The cup is in the kitchen.","posted_again":false,"attempts":2,"proposals":1,"took":`,
		`"run_id":"r","request_id":"d","kind":"failure","provider":"llm","status":"abandoned","reason":"the request has no reinjection points`,
		`{"level":"warn","run_id":"q","message":"with provider human no backend is asked;`,
	} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("want one line with %s, got\n%s", want, &log)
		}
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	script := scriptedtest.New(t, fails(500), says(goodAnswer))
	s := newService(t, Options{Registerer: registry, MaxSessions: 1})
	configure(t, s, "r", llmConfig(openai("a name of the client's", script.URL)))
	mustCoach(t, s, newRequest("r", "c"))
	mustCoach(t, s, newRequest("r", "d"))
	var full *FullError
	if err := s.Configure(t.Context(), "q", humanConfig(script.URL)); !errors.As(err, &full) {
		t.Fatal(err)
	}
	want := map[string]float64{
		`agentd_coaching_sessions`: 1,
		`agentd_coaching_tasks`:    0,
		`agentd_coaching_requests_total kind="failure" provider="llm" status="corrected"`: 2,
		`agentd_coaching_requests_in_flight`:                                              0,
		`agentd_coaching_attempts_total outcome="answered" type="openai"`:                 2,
		`agentd_coaching_attempts_total outcome="failed" type="openai"`:                   1,
		`agentd_coaching_tokens_total direction="prompt" type="openai"`:                   22,
		`agentd_coaching_tokens_total direction="completion" type="openai"`:               14,
		`agentd_coaching_refused_total bound="sessions"`:                                  1,
		`agentd_coaching_request_seconds provider="llm"`:                                  2,
		`agentd_coaching_attempt_seconds type="openai"`:                                   3,
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += fmt.Sprintf(" %s=%q", l.GetName(), l.GetValue())
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if _, err := New(Options{Registerer: registry}); err == nil {
		t.Error("metrics can be registered twice")
	}
}
