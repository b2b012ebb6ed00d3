package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/postgres/pgtest"
)

// openShared starts consoles that share a database.
func openShared(t *testing.T, url string) *fixture {
	t.Helper()
	var secrets atomic.Int64
	name := t.Name() + fmt.Sprint(time.Now().UnixNano())
	return open(t, func(o *Options) {
		o.Store, o.Now = url, time.Now
		o.NewSecret = func() string { return name + fmt.Sprint(secrets.Add(1)) }
	})
}

func TestAnswerAtOneConsoleReachesAgentAtAnother(t *testing.T) {
	server := pgtest.Start(t, false)
	a, b := openShared(t, server.URL), openShared(t, server.URL)
	agent := a.post(foreign("r1"))
	b.eventually("the task", func() bool { return len(b.tasks("open")) == 1 })
	claim := b.claimed("1", "Ann")
	if r := a.call(http.MethodPost, "/api/tasks/1/claim", object{"person": "Bob"}); r.status != http.StatusConflict || r.detail() != "Ann is working on it" {
		t.Errorf("a claim at the other console: %d %s", r.status, r.body)
	}
	a.want(http.StatusNoContent, http.MethodPut, "/api/tasks/1/draft", object{"claim": claim, "draft": object{"by": "Ann"}}, nil)
	b.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", object{"claim": claim, "status": "skipped", "reason": "because"}, nil)
	if got := agent.answer(); got.Error != "because" {
		t.Errorf("the agent got %+v", got)
	}
	if r := b.call(http.MethodPost, "/v1/coaching/requests", foreign("r1")); r.status != http.StatusOK || !strings.Contains(string(r.body), `"because"`) {
		t.Errorf("the same request at the other console gives %d %s", r.status, r.body)
	}
}

func TestTaskWithdrawnAtOneConsoleEndsAtAnother(t *testing.T) {
	server := pgtest.Start(t, false)
	a, b := openShared(t, server.URL), openShared(t, server.URL)
	agent := a.post(foreign("r1"))
	b.want(http.StatusNoContent, http.MethodDelete, "/v1/coaching/requests/r1", nil, nil)
	if got := agent.answer(); got.Status != "aborted" {
		t.Errorf("the agent got %+v", got)
	}
	b.eventually("the end of the task", func() bool { return a.console.Waiting() == 0 && b.console.Waiting() == 0 })
}

func TestConcurrentClaimsAtThreeConsolesHaveOneWinner(t *testing.T) {
	server := pgtest.Start(t, false)
	consoles := []*fixture{openShared(t, server.URL), openShared(t, server.URL), openShared(t, server.URL)}
	consoles[0].post(foreign("r1"))
	var won atomic.Int32
	var wait sync.WaitGroup
	for i := range 30 {
		wait.Go(func() {
			r, err := consoles[i%3].try(context.Background(), http.MethodPost, "/api/tasks/1/claim", object{"person": fmt.Sprint("P", i)})
			switch {
			case err != nil:
				t.Error(err)
			case r.status == http.StatusOK:
				won.Add(1)
			case r.status != http.StatusConflict:
				t.Errorf("a loser got %d %s", r.status, r.body)
			}
		})
	}
	wait.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d people have the task", n)
	}
}

// TestNothingIsLostWhenDatabaseIsKilled also keeps the agent's connection: it waits on.
func TestNothingIsLostWhenDatabaseIsKilled(t *testing.T) {
	server := pgtest.Start(t, true)
	a, b := openShared(t, server.URL), openShared(t, server.URL)
	agent := a.post(foreign("r1"))
	claim := b.claimed("1", "Ann")
	server.Kill()
	answer := object{"claim": claim, "status": "skipped", "reason": "because"}
	r := b.call(http.MethodPost, "/api/tasks/1/answer", answer)
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		t.Errorf("an answer without the database: %d %s", r.status, r.body)
	}
	a.want(http.StatusOK, http.MethodGet, "/health", nil, nil)
	server.Restart(t)
	b.eventually("the answer", func() bool { return b.call(http.MethodPost, "/api/tasks/1/answer", answer).status == http.StatusOK })
	if got := agent.answer(); got.Error != "because" {
		t.Errorf("the agent got %+v", got)
	}
}
