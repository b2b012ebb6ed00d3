package coach

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"agentd/coaching/egress"
	"agentd/coaching/human"
	"agentd/coaching/internal/scriptedtest"
	"agentd/coaching/session"
	"agentd/coaching/store"
	"agentd/protocol"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTakenAnswersAreForgotten(t *testing.T) {
	endpoint := scriptedtest.New(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"request_id":"t","status":"skipped","error":"no"}`)
	})
	policy, err := egress.NewPolicy(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := policy.NewClient(egress.ClientOptions{})
	defer client.Close()
	sessions := store.NewMemory(time.Now)
	rec := store.Record{ID: uuid.New(), RunID: "r"}
	if _, err := sessions.Create(t.Context(), rec, 0); err != nil {
		t.Fatal(err)
	}
	lease, ok, err := store.NewLeases(sessions, zerolog.Nop()).Enter(t.Context(), rec)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	p := tasks{
		running: map[string]*task{}, human: human.New(endpoint.URL, client, human.Options{Now: time.Now}),
		env: &Env{Now: time.Now, Session: session.New(rec, session.Options{
			Workers: 1, Share: 1 << 20, Bytes: session.NewBudget(1 << 20), AnswerBytes: session.NewBudget(1 << 20),
			Abort: context.Background(), Released: func() {},
		})},
	}
	ask := &protocol.HumanCoachingRequest{RequestID: "t", Payload: protocol.Raw(`{}`)}
	given, joined, err := p.join(ask, lease, func(error) {})
	if joined || err != nil {
		t.Fatal(joined, err)
	}
	<-given.done
	if again, joined, err := p.join(ask, lease, nil); again != given || !joined || err != nil {
		t.Errorf("an answer that nobody took is not joined: %v, %v", joined, err)
	}
	p.take(given)
	if len(p.running) != 0 || len(p.undelivered) != 0 {
		t.Errorf("%d tasks and %d ids are kept though the answer was taken", len(p.running), len(p.undelivered))
	}
	<-p.env.Session.Seal()
	lease.Drop()
}
