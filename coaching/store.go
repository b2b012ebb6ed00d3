package coaching

import (
	"context"
	"sync"
	"time"

	"agentd/protocol"

	"github.com/google/uuid"
)

// State is the state of an existing session. A closed session no longer exists.
type State string

// The states of a session.
const (
	Configured State = "configured"
	Closing    State = "closing"
)

// Record describes a session, without what runs for it on one server.
type Record struct {
	// ID is random. It differs from that of an earlier session of the run. The ids of
	// tasks for people are derived from it.
	ID     uuid.UUID
	RunID  string
	Config *protocol.CoachingSessionConfig // never changed
	State  State
}

// Store holds the sessions by run, and a lease for each request in progress. Its methods are
// atomic and may be called from any goroutine. A *StoreError means that the store itself
// failed. Records hold the headers of backends, which are often keys, so a store must not
// print them.
type Store interface {
	// Create adds a configured session. If the run has one already, it returns that
	// one, which counts as a use. If limit sessions exist (0: no limit), the error is a
	// *FullError.
	Create(ctx context.Context, rec Record, limit int) (existing *Record, err error)
	// Get returns the run's session, nil if it has none.
	Get(ctx context.Context, runID string) (*Record, error)
	// Enter adds a lease to the session with this id, which counts as a use. ok is false
	// if it is closing or gone.
	Enter(ctx context.Context, id, lease uuid.UUID) (ok bool, err error)
	// Leave ends a lease. This counts as a use of its session.
	Leave(ctx context.Context, lease uuid.UUID) error
	// MarkClosing turns the run's session from Configured to Closing and returns it,
	// perhaps without its Config. It returns nil if no session is configured. Only one of
	// several callers gets it.
	MarkClosing(ctx context.Context, runID string) (*Record, error)
	// MarkIdle does the same to all sessions without leases that were not used for a time.
	MarkIdle(ctx context.Context, unused time.Duration) ([]Record, error)
	// Delete removes the session with this id, unless it has leases. gone: it does not
	// exist any more.
	Delete(ctx context.Context, id uuid.UUID) (gone bool, err error)
	// Count returns the number of sessions.
	Count(ctx context.Context) (int, error)
}

// Shared is a Store that several servers use. It outlives them. A lease ends when its
// server has not renewed it for the lease time, by the store's clock.
type Shared interface {
	Store
	// LeaseTime is how long a lease lasts without renewal.
	LeaseTime() time.Duration
	// Renew renews leases, removes those that ended and closing sessions that have none,
	// and returns which of these sessions are closing or gone.
	Renew(ctx context.Context, leases, sessions []uuid.UUID) (closed []uuid.UUID, err error)
	// Claim returns the kept answer to a request. If there is none, the first lease
	// claims it, until that is settled or the lease ends. Others get neither.
	Claim(ctx context.Context, session uuid.UUID, request string, lease uuid.UUID) (kept *Kept, claimed bool, err error)
	// Settle keeps an answer unless another one is kept, and returns the one that is. A
	// nil answer only gives the claim up.
	Settle(ctx context.Context, session uuid.UUID, request string, lease uuid.UUID, answer *Kept) (*Kept, error)
}

// Kept is an answer in a [Shared] store, for the same request posted again.
type Kept struct {
	Provider string // of the coach who gave it
	Response []byte // as sent
}

// MemoryStore is a [Store] in memory. Make it with NewMemoryStore.
type MemoryStore struct {
	now func() time.Time

	mu       sync.Mutex
	runs     map[string]*memorySession
	sessions map[uuid.UUID]*memorySession
	leases   map[uuid.UUID]*memorySession
}

// memorySession is a session of a MemoryStore.
type memorySession struct {
	Record
	leases int
	used   time.Time
}

// NewMemoryStore returns an empty store with a clock.
func NewMemoryStore(now func() time.Time) *MemoryStore {
	return &MemoryStore{
		now:  now,
		runs: make(map[string]*memorySession), sessions: make(map[uuid.UUID]*memorySession), leases: make(map[uuid.UUID]*memorySession),
	}
}

// Create implements [Store].
func (m *MemoryStore) Create(_ context.Context, rec Record, limit int) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.runs[rec.RunID]; s != nil {
		s.used = m.now()
		existing := s.Record
		return &existing, nil
	}
	if limit > 0 && len(m.runs) >= limit {
		return nil, TooManySessions(limit)
	}
	rec.State = Configured
	s := &memorySession{Record: rec, used: m.now()}
	m.runs[rec.RunID], m.sessions[rec.ID] = s, s
	return nil, nil
}

// Get implements [Store].
func (m *MemoryStore) Get(_ context.Context, runID string) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.runs[runID]; s != nil {
		rec := s.Record
		return &rec, nil
	}
	return nil, nil
}

// Enter implements [Store].
func (m *MemoryStore) Enter(_ context.Context, id, lease uuid.UUID) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[id]
	if s == nil || s.State != Configured {
		return false, nil
	}
	m.leases[lease] = s
	s.leases++
	s.used = m.now()
	return true, nil
}

// Leave implements [Store].
func (m *MemoryStore) Leave(_ context.Context, lease uuid.UUID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.leases[lease]; s != nil {
		s.leases--
		s.used = m.now()
		delete(m.leases, lease)
	}
	return nil
}

// MarkClosing implements [Store].
func (m *MemoryStore) MarkClosing(_ context.Context, runID string) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.runs[runID]
	if s == nil || s.State != Configured {
		return nil, nil
	}
	s.State = Closing
	rec := s.Record
	return &rec, nil
}

// MarkIdle implements [Store].
func (m *MemoryStore) MarkIdle(_ context.Context, unused time.Duration) (idle []Record, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for _, s := range m.sessions {
		if s.State == Configured && s.leases == 0 && now.Sub(s.used) >= unused {
			s.State = Closing
			idle = append(idle, s.Record)
		}
	}
	return idle, nil
}

// Delete implements [Store].
func (m *MemoryStore) Delete(_ context.Context, id uuid.UUID) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[id]
	if s != nil && s.leases > 0 {
		return false, nil
	}
	if s != nil {
		delete(m.sessions, id)
		delete(m.runs, s.RunID)
	}
	return true, nil
}

// Count implements [Store].
func (m *MemoryStore) Count(context.Context) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.runs), nil
}
