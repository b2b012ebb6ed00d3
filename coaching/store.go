package coaching

import (
	"context"
	"sync"

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
	Config *protocol.CoachingSessionConfig // never changed
	State  State
}

// Store holds the sessions by run. Its methods are atomic and may be called from any
// goroutine. An error means that the store itself failed. Records hold the headers of
// backends, which are often keys, so a store must not print them.
type Store interface {
	// Create adds a configured session. If the run has one already, it returns that
	// one. If limit sessions exist (0: no limit), the error is a *FullError.
	Create(ctx context.Context, runID string, rec Record, limit int) (existing *Record, err error)
	// Get returns the run's session, nil if it has none.
	Get(ctx context.Context, runID string) (*Record, error)
	// MarkClosing turns the run's session from Configured to Closing and returns it.
	// It returns nil if there is no configured one, or if id is neither Nil nor the
	// session's. Only one of several callers gets it.
	MarkClosing(ctx context.Context, runID string, id uuid.UUID) (*Record, error)
	// Delete removes the run's session if it is the one with this id.
	Delete(ctx context.Context, runID string, id uuid.UUID) error
	// Count returns the number of sessions.
	Count(ctx context.Context) (int, error)
}

// MemoryStore is a [Store] in memory. The zero value is empty.
type MemoryStore struct {
	mu      sync.Mutex
	records map[string]Record
}

// Create implements [Store].
func (m *MemoryStore) Create(_ context.Context, runID string, rec Record, limit int) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if existing, ok := m.records[runID]; ok {
		return &existing, nil
	}
	if limit > 0 && len(m.records) >= limit {
		return nil, tooManySessions(limit)
	}
	if m.records == nil {
		m.records = make(map[string]Record)
	}
	rec.State = Configured
	m.records[runID] = rec
	return nil, nil
}

// Get implements [Store].
func (m *MemoryStore) Get(_ context.Context, runID string) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rec, ok := m.records[runID]; ok {
		return &rec, nil
	}
	return nil, nil
}

// MarkClosing implements [Store].
func (m *MemoryStore) MarkClosing(_ context.Context, runID string, id uuid.UUID) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec, ok := m.records[runID]
	if !ok || rec.State != Configured || (id != uuid.Nil && id != rec.ID) {
		return nil, nil
	}
	rec.State = Closing
	m.records[runID] = rec
	return &rec, nil
}

// Delete implements [Store].
func (m *MemoryStore) Delete(_ context.Context, runID string, id uuid.UUID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records[runID].ID == id {
		delete(m.records, runID)
	}
	return nil
}

// Count implements [Store].
func (m *MemoryStore) Count(context.Context) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.records), nil
}
