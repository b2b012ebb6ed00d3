package console

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/coaching/egress"
	"agentd/coaching/human"
	"agentd/coaching/repair"
	"agentd/coaching/repair/prompt"
	"agentd/protocol"
)

// coach is the part of an agentd server that asks people.
func (f *fixture) coach() *human.Coach {
	f.t.Helper()
	policy, err := egress.NewPolicy(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	client := policy.NewClient(egress.ClientOptions{})
	f.t.Cleanup(client.Close)
	return human.New(f.url, client, human.Options{
		Rand: rand.Float64, Now: time.Now, Log: func(human.Failure) {},
		Sleep: func(ctx context.Context, d time.Duration) error {
			select {
			case <-time.After(d / 10):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	})
}

// asked is an answer to a question of a coach.
type asked struct {
	response *protocol.HumanCoachingResponse
	err      error
}

func ask(ctx context.Context, coach *human.Coach, req *protocol.HumanCoachingRequest) <-chan asked {
	got := make(chan asked, 1)
	go func() {
		response, err := coach.Ask(ctx, req)
		got <- asked{response, err}
	}()
	return got
}

func TestServersRequestSurvivesConsoleRestart(t *testing.T) {
	f := open(t)
	request, err := protocol.DecodeSpecializedCoachingRequest([]byte(coachingRequest))
	if err != nil {
		t.Fatal(err)
	}
	task := repair.NewCase(request)
	got := ask(t.Context(), f.coach(), prompt.HumanRequest(task, "r1"))
	f.eventually("the server waits", func() bool { return f.connections() == 1 })
	claim := f.claimed("1", "Ann")

	address := strings.TrimPrefix(f.url, "http://")
	f.stop()
	// At once: the server gives up after five refused connections, while the store opens.
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	f = openAt(t, f.path, f.clock)
	served := make(chan error, 1)
	go func() { served <- f.console.Serve(listener) }() // at the old address too
	f.eventually("the server is back", func() bool { return f.connections() == 1 })

	var detail taskDetail
	f.want(http.StatusOK, http.MethodGet, "/api/tasks/1", nil, &detail)
	if detail.Task.Kind != "failure" || len(detail.Points) != 2 || string(detail.Coaching) == "null" {
		t.Errorf("the server's task is shown as %+v", detail)
	}
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", object{"claim": claim, "status": "completed", "point": "p0", "decision": pick("cube")}, nil)
	answer := <-got
	if answer.err != nil {
		t.Fatal(answer.err)
	}
	verdict, err := task.ReadHuman(*answer.response.Output)
	if err != nil || len(verdict.Proposals) != 1 || verdict.Proposals[0].ReinjectionPointID != "p0" || !strings.Contains(string(verdict.Proposals[0].ExtraKeys), "cube") {
		t.Errorf("the server reads %+v (%v)", verdict, err)
	}
	f.stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestClosedSessionWithdrawsItsTask(t *testing.T) {
	f := open(t)
	request, err := protocol.DecodeSpecializedCoachingRequest([]byte(coachingRequest))
	if err != nil {
		t.Fatal(err)
	}
	coach := f.coach()
	ctx, leave := context.WithCancel(t.Context())
	got := ask(ctx, coach, prompt.HumanRequest(repair.NewCase(request), "r1"))
	f.eventually("the server waits", func() bool { return f.connections() == 1 })
	leave()
	if answer := <-got; answer.err == nil {
		t.Errorf("who left got %+v", answer.response)
	}
	f.eventually("it is shown as gone", func() bool { return !f.tasks("open")[0].AgentWaiting })
	if err := coach.Withdraw(t.Context(), "r1"); err != nil {
		t.Fatal(err)
	}
	if done := f.tasks("done"); len(done) != 1 || done[0].State != stateWithdrawn {
		t.Errorf("the tasks are %+v", done)
	}
	if err := coach.Withdraw(t.Context(), "unknown"); err != nil {
		t.Errorf("withdrawing what is not known: %v", err)
	}
}
