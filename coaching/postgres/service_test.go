package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"agentd/coaching"
	"agentd/coaching/backend"
	"agentd/coaching/postgres/pgtest"
	"agentd/coaching/store"
	"agentd/internal/base/waittest"
	"agentd/protocol"
)

// patience is how long a test waits for what must happen; only failures take it.
const patience = time.Minute

// model is a local coach. It counts the questions and answers each in another way.
type model struct {
	asked  atomic.Int64
	before func(ctx context.Context) error // nil: answers at once
}

func (m *model) Ask(ctx context.Context, _ backend.Question) (backend.Answer, error) {
	n := m.asked.Add(1)
	if m.before != nil {
		if err := m.before(ctx); err != nil {
			return backend.Answer{}, err
		}
	}
	return backend.Answer{Text: fmt.Sprintf(`{"outcome":"corrected","why":"It is answer %d.","reinjection_point_id":"p","decision":{"say":"answer %d","tool_calls":[]}}`, n, n)}, nil
}

func (*model) Window() int { return 32768 }

// replica is a service with its own store, as in a separate process.
func replica(t *testing.T, url string, keys *Keys, o coaching.Options) *coaching.Service {
	t.Helper()
	db := open(t, url, keys, DefaultLease)
	o.Store, o.Log = db, zerolog.New(zerolog.NewTestWriter(t))
	s, err := coaching.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// ownModel is a backend as clients define it.
func ownModel() protocol.CoachingBackend {
	b := protocol.NewCoachingBackend("own", protocol.BackendLocal)
	b.DefaultModel = "this server"
	return b
}

func localConfig() *protocol.CoachingSessionConfig {
	cfg := protocol.NewCoachingSessionConfig()
	cfg.Backends = []protocol.CoachingBackend{ownModel()}
	return cfg
}

func request(t *testing.T, runID, requestID string) *protocol.SpecializedCoachingRequest {
	t.Helper()
	req, err := protocol.DecodeSpecializedCoachingRequest(fmt.Appendf(nil, `{"run_id":%q,"request_id":%q,"kind":"failure",
		"stage":{"id":1,"goal":"Bring the cup to the kitchen."},"active_errors":[{"code":"wrong_place","description":"The cup is not in the cellar."}],
		"target_step_id":7,"trajectory":[{"id":7,"input":{"id":1,"instruction":{"type":"user","content":"Bring the cup."},
		"tools":[{"name":"move","description":"Drive to a place","parameters":{"place":{"type":"string"}}}]},
		"output":{"say":"","tool_calls":[{"name":"move","arguments":{"place":"cellar"},"target_robot_name":"robot"}]}}],
		"reinjection_points":[{"id":"p","input_step_id":7}]}`, runID, requestID))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestEveryReplicaAnswersForEverySession(t *testing.T) {
	server, keys, m := pgtest.Start(t, false), readKeys(t, newKey()), new(model)
	a, b := replica(t, server.URL, keys, coaching.Options{Local: m}), replica(t, server.URL, keys, coaching.Options{Local: m})
	if err := a.Configure(t.Context(), "r", localConfig()); err != nil {
		t.Fatal(err)
	}
	first, err := b.Coach(t.Context(), request(t, "r", "x"))
	if err != nil || first.Status != protocol.CoachingCorrected {
		t.Fatalf("the other replica: %v, %v", first, err)
	}
	again, err := a.Coach(t.Context(), request(t, "r", "x"))
	if err != nil || string(again.AppendJSON(nil)) != string(first.AppendJSON(nil)) {
		t.Errorf("the same request gives %s (%v), want %s", again.AppendJSON(nil), err, first.AppendJSON(nil))
	}
	if n := m.asked.Load(); n != 1 {
		t.Errorf("the coach was asked %d times", n)
	}
	if err := a.Configure(t.Context(), "r", localConfig()); err != nil {
		t.Errorf("the same configuration again: %v", err)
	}
	if err := b.CloseSession(t.Context(), "r"); err != nil {
		t.Errorf("DELETE at the other replica: %v", err)
	}
	if _, err := a.Coach(t.Context(), request(t, "r", "y")); !errors.Is(err, coaching.ErrUnknown) {
		t.Errorf("a request after DELETE: %v", err)
	}
}

func TestSameRequestAtTwoReplicasAsksOnce(t *testing.T) {
	server, keys := pgtest.Start(t, false), readKeys(t, newKey())
	answer := make(chan struct{})
	m := &model{before: func(ctx context.Context) error {
		select {
		case <-answer:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	replicas := []*coaching.Service{replica(t, server.URL, keys, coaching.Options{Local: m}), replica(t, server.URL, keys, coaching.Options{Local: m})}
	if err := replicas[0].Configure(t.Context(), "r", localConfig()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var got [6]string
	for i := range got {
		all.Go(func() {
			res, err := replicas[i%2].Coach(t.Context(), request(t, "r", "x"))
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = string(res.AppendJSON(nil))
		})
	}
	waittest.Eventually(t, "the question", func() bool { return m.asked.Load() > 0 })
	close(answer)
	all.Wait()
	for _, text := range got {
		if text != got[0] {
			t.Errorf("one got %s, another %s", got[0], text)
		}
	}
	if n := m.asked.Load(); n != 1 {
		t.Errorf("the coach was asked %d times", n)
	}
}

func TestDeleteWaitsForRequestsOfOtherReplicas(t *testing.T) {
	server, keys := pgtest.Start(t, false), readKeys(t, newKey())
	answer := make(chan struct{})
	m := &model{before: func(context.Context) error { <-answer; return nil }}
	a, b := replica(t, server.URL, keys, coaching.Options{Local: m}), replica(t, server.URL, keys, coaching.Options{Local: m})
	if err := a.Configure(t.Context(), "r", localConfig()); err != nil {
		t.Fatal(err)
	}
	coached, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := a.Coach(t.Context(), request(t, "r", "x"))
		coached <- err
	}()
	waittest.Eventually(t, "the question", func() bool { return m.asked.Load() > 0 })
	go func() { closed <- b.CloseSession(t.Context(), "r") }()
	db := open(t, server.URL, keys, DefaultLease)
	waittest.Eventually(t, "closing", func() bool {
		rec, err := db.Get(t.Context(), "r")
		return err == nil && rec != nil && rec.State == store.Closing
	})
	if _, err := a.Coach(t.Context(), request(t, "r", "y")); !errors.Is(err, coaching.ErrUnknown) {
		t.Errorf("a request while closing: %v", err)
	}
	if err := b.Configure(t.Context(), "r", localConfig()); !errors.Is(err, coaching.ErrClosing) {
		t.Errorf("PUT while closing: %v", err)
	}
	select {
	case err := <-closed:
		t.Errorf("DELETE did not wait: %v", err)
	default:
	}
	close(answer)
	if err := <-coached; err != nil {
		t.Errorf("the request in progress: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("DELETE: %v", err)
	}
	if err := b.Configure(t.Context(), "r", localConfig()); err != nil {
		t.Errorf("PUT after DELETE: %v", err)
	}
}

func TestDeleteWithdrawsTasksOfAbsentReplica(t *testing.T) {
	server, keys := pgtest.Start(t, false), readKeys(t, newKey())
	for name, operator := range map[string]bool{"a session's people": false, "the operator's people": true} {
		posted, withdrawn := make(chan string, 2), make(chan string, 4)
		people := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				withdrawn <- path.Base(r.URL.Path)
				return
			}
			body, _ := io.ReadAll(r.Body)
			task, err := protocol.DecodeHumanCoachingRequest(body)
			if err != nil {
				t.Error(err)
				return
			}
			posted <- task.RequestID
			<-r.Context().Done()
		}))
		t.Cleanup(people.Close)
		cfg, o := protocol.NewCoachingSessionConfig(), coaching.Options{}
		cfg.Provider, cfg.Endpoint = protocol.ProviderHuman, people.URL
		if operator {
			cfg, o = localConfig(), coaching.Options{Local: &model{}, People: coaching.People{Endpoint: people.URL}}
		}
		a := replica(t, server.URL, keys, o)
		if err := a.Configure(t.Context(), name, cfg); err != nil {
			t.Fatal(err)
		}
		// The caller of one request leaves, that of the other waits.
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for _, caller := range []context.Context{ctx, t.Context()} {
			go func() {
				_, err := a.Coach(caller, request(t, name, fmt.Sprint(caller == ctx)))
				ended <- err
			}()
		}
		want := []string{<-posted, <-posted}
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: the caller that left: %v", name, err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil || len(withdrawn) > 0 {
			t.Fatalf("%s: at the end of its server: %v, and %d tasks are withdrawn", name, err, len(withdrawn))
		}
		if err := replica(t, server.URL, keys, o).CloseSession(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		close(withdrawn)
		var got []string
		for id := range withdrawn {
			got = append(got, id)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: withdrawn are %q, want %q", name, got, want)
		}
	}
}

func TestIdleSessionOfAbsentReplicaIsClosed(t *testing.T) {
	server, keys := pgtest.Start(t, false), readKeys(t, newKey())
	a := replica(t, server.URL, keys, coaching.Options{Local: &model{}})
	if err := a.Configure(t.Context(), "r", localConfig()); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := open(t, server.URL, keys, DefaultLease)
	if n, err := db.Count(t.Context()); n != 1 || err != nil {
		t.Fatalf("the session did not survive its server: %d, %v", n, err)
	}
	replica(t, server.URL, keys, coaching.Options{Idle: time.Nanosecond, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	waittest.Eventually(t, "closing the idle session", func() bool {
		n, err := db.Count(t.Context())
		return n == 0 && err == nil
	})
}

func TestLostDatabaseGivesStoreErrorUntilItIsBack(t *testing.T) {
	server, keys, m := pgtest.Start(t, true), readKeys(t, newKey()), new(model)
	s := replica(t, server.URL, keys, coaching.Options{Local: m})
	if err := s.Configure(t.Context(), "r", localConfig()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Coach(t.Context(), request(t, "r", "x")); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	var down *store.Error
	if _, err := s.Coach(t.Context(), request(t, "r", "y")); !errors.As(err, &down) {
		t.Errorf("a request without the database: %v, want a *StoreError", err)
	}
	if err := s.CloseSession(t.Context(), "r"); !errors.As(err, &down) {
		t.Errorf("DELETE without the database: %v, want a *StoreError", err)
	}
	server.Restart(t)
	waittest.Eventually(t, "an answer", func() bool {
		_, err := s.Coach(t.Context(), request(t, "r", "y"))
		return err == nil
	})
	res, err := s.Coach(t.Context(), request(t, "r", "x"))
	if err != nil || !strings.Contains(string(res.AppendJSON(nil)), "answer 1") {
		t.Errorf("the answer from before is now %v, %v", res, err)
	}
}

func TestHeadersAreEncryptedAndKeysRotate(t *testing.T) {
	server := pgtest.Start(t, false)
	first, second := newKey(), newKey()
	cfg := localConfig()
	big := protocol.NewCoachingBackend("big", protocol.BackendOpenAI)
	big.Endpoint, big.DefaultModel, big.Headers = "https://llm.example.org/v1", "m", protocol.Headers{"Authorization": "Bearer very-secret"}
	cfg.Backends = append(cfg.Backends, big)
	old := open(t, server.URL, readKeys(t, "# made today\n"+first), DefaultLease)
	create := func(s *Store, run string) {
		t.Helper()
		if _, err := s.Create(t.Context(), store.Record{ID: [16]byte{run[0]}, RunID: run, Config: cfg}, 0); err != nil {
			t.Fatal(err)
		}
	}
	create(old, "a")
	both := open(t, server.URL, readKeys(t, second+"\n"+first+"\n"), DefaultLease)
	create(both, "b")
	for _, run := range []string{"a", "b"} {
		if rec, err := both.Get(t.Context(), run); err != nil || !rec.Config.Equal(cfg) {
			t.Errorf("%s with both keys: %v, %v", run, rec, err)
		}
	}
	if _, err := old.Get(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "key file lacks") {
		t.Errorf("without the new key: %v", err)
	}
	if rec, err := old.MarkClosing(t.Context(), "b"); err != nil || rec == nil {
		t.Errorf("a session whose key is lost cannot be closed: %v", err)
	}
	var text string
	err := both.do(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT string_agg(encode(config, 'escape') || s::text, '') FROM agentd_sessions AS s`).Scan(&text)
	})
	if err != nil || text == "" || strings.Contains(text, "very-secret") || strings.Contains(text, "llm.example.org") {
		t.Errorf("the table holds %q (%v)", text, err)
	}
	_, err = both.exec(t.Context(), `UPDATE agentd_sessions SET config = (SELECT config FROM agentd_sessions WHERE run_id = 'b'), key_id = (SELECT key_id FROM agentd_sessions WHERE run_id = 'b') WHERE run_id = 'a'`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := both.Get(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a configuration moved to another session: %v", err)
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "only a comment": "# none\n", "too short": "abcd", "too long": newKey() + "ff", "no key": "correct horse battery staple"} {
		if _, err := ReadKeys(text); err == nil || !strings.Contains(err.Error(), "openssl rand -hex 32") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewerTablesAreRefused(t *testing.T) {
	server, keys := pgtest.Start(t, false), readKeys(t, newKey())
	s := open(t, server.URL, keys, DefaultLease)
	if _, err := s.exec(t.Context(), `UPDATE agentd_schema SET version = version + 1`); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{URL: server.URL, Keys: keys})
	if err == nil || !strings.Contains(err.Error(), "use the program that wrote it") {
		t.Errorf("opened, or: %v", err)
	}
}

func TestConcurrentMigrationsRunOnce(t *testing.T) {
	server, keys := pgtest.Start(t, false), readKeys(t, newKey())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := Open(context.Background(), Options{URL: server.URL, Keys: keys, Log: zerolog.Nop()})
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	all.Wait()
}
