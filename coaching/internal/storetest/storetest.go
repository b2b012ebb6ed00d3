// Package storetest has the rules that every store of coaching sessions must keep.
package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"agentd/coaching/store"
	"agentd/protocol"
)

// Replicas are the same store as several servers see it.
type Replicas struct {
	Stores []store.Store
	// Expire ends leases as if their server had not renewed them; nil for a store that is
	// not shared.
	Expire func(leases []uuid.UUID)

	// Kill kills a server, or their database if it is [Database], as kill -9 does, while a
	// store is at work. The function that it returns starts it again, with a new store in
	// Stores, and returns once nothing of the killed one works on. If Kill is nil, nothing is
	// killed.
	Kill func(server int) (restart func())
	// Contents lists what is stored, in any order: see [SessionLine], [LeaseLine] and
	// [AnswerLine]. Kill needs it.
	Contents func() []string
}

// operations is how many the model test makes in all; a variable asks for more.
func operations(t *testing.T) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("AGENTD_STORE_OPERATIONS"), "2000"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// checks is how many sequences of operations rapid makes by default.
const checks = 100

// Run creates sessions at the same time, makes random operations by several servers, and
// compares their results with a model. open returns a store without sessions.
func Run(t *testing.T, open func() Replicas) {
	createAtOnce(t, open().Stores)
	steps, stale := max(operations(t)/checks, 1), map[int]int{}
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, ctx: context.Background(), Replicas: open(), runs: map[string]*session{}, leases: map[uuid.UUID]*held{}, stale: stale}
		for range steps {
			m.step()
		}
		m.compare()
	})
}

// session is the model's state of a session.
type session struct {
	store.Record
	answers map[string]*answer
}

// answer is a claimed or kept answer.
type answer struct {
	lease uuid.UUID
	kept  *store.Kept
}

// held is a lease and its session.
type held struct {
	session *session
	replica int
}

// model is the expected state of the store.
type model struct {
	t   *rapid.T
	ctx context.Context
	Replicas
	runs   map[string]*session
	leases map[uuid.UUID]*held
	ended  []uuid.UUID // sessions and leases of the past
	n      int         // of names so far

	server  int         // that makes the current operation
	killing bool        // while it does so, something is killed
	stale   map[int]int // connections to a killed database that a server may still use
	lost    bool        // the current operation failed by that
}

// limit is how many sessions may exist.
const limit = 3

// names are run ids, some of them unusual.
var names = []string{"a", "run/ä", "nul\x00nul", "d"}

func pick[T any](m *model, what string, from []T) T { return rapid.SampledFrom(from).Draw(m.t, what) }

// sorted are keys in an order that is the same when rapid repeats the operations.
func sorted(ids []uuid.UUID) []uuid.UUID {
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

// id is a new id, the same when rapid repeats the operations.
func (m *model) id() uuid.UUID {
	m.n++
	return uuid.NewSHA1(uuid.Nil, []byte(strconv.Itoa(m.n)))
}

// known is the id of a session that exists, or existed, or never did.
func (m *model) known() uuid.UUID {
	ids := append([]uuid.UUID{uuid.NewSHA1(uuid.Nil, []byte("never"))}, m.ended...)
	for _, s := range m.runs {
		ids = append(ids, s.ID)
	}
	return pick(m, "session", sorted(ids))
}

// lease is one that is held, or was, or never was.
func (m *model) lease() uuid.UUID {
	ids := append([]uuid.UUID{uuid.NewSHA1(uuid.Nil, []byte("never"))}, m.ended...)
	return pick(m, "lease", sorted(slices.AppendSeq(ids, maps.Keys(m.leases))))
}

// byID is the session with an id, nil if there is none.
func (m *model) byID(id uuid.UUID) *session {
	for _, s := range m.runs {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// leased reports whether a session has leases.
func (m *model) leased(s *session) bool {
	for _, l := range m.leases {
		if l.session == s {
			return true
		}
	}
	return false
}

func (m *model) remove(s *session) {
	delete(m.runs, s.RunID)
	m.ended = append(m.ended, s.ID)
}

// ok reports whether an operation succeeded. It fails the test on an error of the store that
// no kill explains.
func (m *model) ok(err error) bool {
	m.t.Helper()
	var failed *store.Error
	switch {
	case err == nil:
		return true
	case !errors.As(err, &failed) || !m.killing && m.stale[m.server] == 0:
		m.t.Fatal(err)
	case !m.killing:
		m.stale[m.server]--
	}
	m.lost = true
	return false
}

// same compares a record of the store with that of the model.
func (m *model) same(what string, got *store.Record, want *session) {
	m.t.Helper()
	switch {
	case got == nil && want == nil:
	case got == nil || want == nil:
		m.t.Fatalf("%s: the store has %v, the model %v", what, got, want)
	case got.ID != want.ID || got.RunID != want.RunID || got.State != want.State || (got.Config != nil && !got.Config.Equal(want.Config)):
		m.t.Fatalf("%s: the store has %+v, the model %+v", what, *got, want.Record)
	case got.Unanswered != nil:
		for request, a := range want.answers {
			if slices.Contains(got.Unanswered, request) != (a.kept == nil) {
				m.t.Fatalf("%s: the store has the unanswered %q, the model %+v of %q", what, got.Unanswered, a, request)
			}
		}
	}
}

// step makes one random operation. Each returns what the store must look like after it, also
// when a kill hides its result.
func (m *model) step() {
	m.server = rapid.IntRange(0, len(m.Stores)-1).Draw(m.t, "replica")
	from := m.Stores[m.server]
	kill := m.Kill != nil && rapid.IntRange(0, kills-1).Draw(m.t, "kill") == killed
	steps := []func(store.Store, int){m.create, m.create, m.get, m.enter, m.enter, m.leave, m.markClosing, m.markIdle, m.delete, m.count}
	if _, ok := from.(store.Shared); ok {
		steps = append(steps, m.renew, m.claim, m.claim, m.settle, m.settle)
		if !kill {
			steps = append(steps, m.crash)
		}
	}
	operation := pick(m, "operation", steps)
	if m.Kill == nil {
		operation(from, m.server)
		return
	}
	m.survive(kill, func() { operation(from, m.server) })
}

// record is a session's, with a secret that differs for each n.
func record(id uuid.UUID, run string, n int) store.Record {
	cfg := protocol.NewCoachingSessionConfig()
	backend := protocol.NewCoachingBackend("big", protocol.BackendOpenAI)
	backend.Endpoint, backend.DefaultModel = "https://llm.example.org/v1", "some-model"
	backend.Headers = protocol.Headers{"Authorization": fmt.Sprint("Bearer secret ", n)}
	cfg.Backends = []protocol.CoachingBackend{backend}
	return store.Record{ID: id, RunID: run, Config: cfg, State: store.Configured}
}

func (m *model) create(from store.Store, _ int) {
	rec := record(m.id(), pick(m, "run", names), m.n)
	existing := m.runs[rec.RunID]
	got, err := from.Create(m.ctx, rec, limit)
	if existing == nil && len(m.runs) >= limit {
		var full *store.FullError
		if !errors.As(err, &full) && m.ok(err) {
			m.t.Fatalf("Create beyond the limit: %v, %v", got, err)
		}
		return
	}
	if m.ok(err) {
		m.same("Create", got, existing)
	}
	if existing == nil {
		m.runs[rec.RunID] = &session{Record: rec, answers: map[string]*answer{}}
	}
}

func (m *model) get(from store.Store, _ int) {
	run := pick(m, "run", names)
	got, err := from.Get(m.ctx, run)
	if m.ok(err) {
		m.same("Get", got, m.runs[run])
	}
}

func (m *model) enter(from store.Store, replica int) {
	id, lease := m.known(), m.id()
	got, err := from.Enter(m.ctx, id, lease)
	s := m.byID(id)
	want := s != nil && s.State == store.Configured
	if m.ok(err) && got != want {
		m.t.Fatalf("Enter: %v, want %v", got, want)
	}
	if want {
		m.leases[lease] = &held{s, replica}
	}
}

func (m *model) leave(from store.Store, _ int) {
	lease := m.lease()
	m.ok(from.Leave(m.ctx, lease))
	if m.leases[lease] != nil {
		delete(m.leases, lease)
		m.ended = append(m.ended, lease)
	}
}

func (m *model) markClosing(from store.Store, _ int) {
	run := pick(m, "run", names)
	got, err := from.MarkClosing(m.ctx, run)
	s := m.runs[run]
	if s != nil && s.State == store.Closing {
		s = nil // somebody else has it
	} else if s != nil {
		s.State = store.Closing
	}
	if m.ok(err) {
		m.same("MarkClosing", got, s)
	}
}

func (m *model) markIdle(from store.Store, _ int) {
	unused := pick(m, "unused", []time.Duration{0, time.Hour})
	got, err := from.MarkIdle(m.ctx, unused)
	want := map[string]*session{}
	for run, s := range m.runs {
		if unused == 0 && s.State == store.Configured && !m.leased(s) {
			s.State = store.Closing
			want[run] = s
		}
	}
	if !m.ok(err) {
		return
	}
	if len(got) != len(want) {
		m.t.Fatalf("MarkIdle: %d sessions, want %d", len(got), len(want))
	}
	for i := range got {
		m.same("MarkIdle", &got[i], want[got[i].RunID])
	}
}

func (m *model) delete(from store.Store, _ int) {
	id := m.known()
	gone, err := from.Delete(m.ctx, id)
	s := m.byID(id)
	want := s == nil || !m.leased(s)
	if m.ok(err) && gone != want {
		m.t.Fatalf("Delete: %v, want %v", gone, want)
	}
	if want && s != nil {
		m.remove(s)
	}
}

func (m *model) count(from store.Store, _ int) {
	n, err := from.Count(m.ctx)
	if m.ok(err) && n != len(m.runs) {
		m.t.Fatalf("Count: %d, want %d", n, len(m.runs))
	}
}

// renew also removes closing sessions that nobody is in.
func (m *model) renew(from store.Store, replica int) {
	var leases, sessions []uuid.UUID
	for id, l := range m.leases {
		if l.replica == replica {
			leases = append(leases, id)
		}
	}
	for _, s := range m.runs {
		if s.State == store.Closing && !m.leased(s) {
			m.remove(s)
		}
	}
	for range 3 {
		sessions = append(sessions, m.known())
	}
	closed, err := from.(store.Shared).Renew(m.ctx, leases, sessions)
	if !m.ok(err) {
		return
	}
	for _, id := range sessions {
		s := m.byID(id)
		want := s == nil || s.State == store.Closing
		if slices.Contains(closed, id) != want {
			m.t.Fatalf("Renew says of a session that it is closed: %v, want %v", !want, want)
		}
	}
}

// crash ends all leases of a server.
func (m *model) crash(_ store.Store, replica int) {
	var lost []uuid.UUID
	for id, l := range m.leases {
		if l.replica == replica {
			lost = append(lost, id)
			delete(m.leases, id)
		}
	}
	m.Expire(lost)
	m.ended = append(m.ended, sorted(lost)...)
}

// claimant is a lease that is held, and its session.
func (m *model) claimant() (*session, uuid.UUID) {
	ids := sorted(slices.Collect(maps.Keys(m.leases)))
	if len(ids) == 0 {
		return nil, uuid.Nil
	}
	lease := pick(m, "claimant", ids)
	return m.leases[lease].session, lease
}

func (m *model) claim(from store.Store, _ int) {
	s, lease := m.claimant()
	if s == nil {
		return
	}
	request := pick(m, "request", []string{"x", "y"})
	kept, claimed, err := from.(store.Shared).Claim(m.ctx, s.ID, request, lease)
	ok := m.ok(err)
	a := s.answers[request]
	switch {
	case a != nil && a.kept != nil:
		if ok && (claimed || kept == nil || string(kept.Response) != string(a.kept.Response) || kept.Provider != a.kept.Provider) {
			m.t.Fatalf("Claim of a kept answer: %v, %v, want %v", kept, claimed, a.kept)
		}
	case a != nil && m.leases[a.lease] != nil:
		if ok && (claimed || kept != nil) {
			m.t.Fatalf("Claim of a claimed answer: %v, %v", kept, claimed)
		}
	default:
		if ok && (!claimed || kept != nil) {
			m.t.Fatalf("Claim of a free answer: %v, %v", kept, claimed)
		}
		s.answers[request] = &answer{lease: lease}
	}
}

func (m *model) settle(from store.Store, _ int) {
	s, lease := m.claimant()
	if s == nil {
		return
	}
	request := pick(m, "request", []string{"x", "y"})
	a := s.answers[request]
	if a == nil {
		return // only a claimed answer is settled
	}
	var given *store.Kept
	if rapid.Bool().Draw(m.t, "answered") {
		m.n++
		given = &store.Kept{Provider: "llm", Response: fmt.Append(nil, "answer ", m.n)}
	} else if rapid.Bool().Draw(m.t, "later") {
		given = new(store.Kept)
	}
	got, err := from.(store.Shared).Settle(m.ctx, s.ID, request, lease, given)
	ok := m.ok(err)
	if given == nil || len(given.Response) == 0 {
		if a.kept == nil && a.lease == lease {
			if a.lease = s.ID; given == nil {
				delete(s.answers, request)
			}
		}
		return
	}
	if a.kept == nil {
		a.kept = given
	}
	if ok && (got == nil || string(got.Response) != string(a.kept.Response)) {
		m.t.Fatalf("Settle: %v, want %v", got, a.kept)
	}
}

// compare compares all sessions at the end, as every server sees them.
func (m *model) compare() {
	for i, from := range m.Stores {
		m.server = i
		for _, run := range names {
			got, err := from.Get(m.ctx, run)
			for !m.ok(err) {
				got, err = from.Get(m.ctx, run)
			}
			m.same("at the end", got, m.runs[run])
		}
		m.count(from, 0)
	}
}
