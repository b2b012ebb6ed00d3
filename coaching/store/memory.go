package store

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Memory is a [Store] in memory. Make it with NewMemory.
type Memory struct {
	now func() time.Time

	mu       sync.Mutex
	runs     map[string]*memorySession
	sessions map[uuid.UUID]*memorySession
	leases   map[uuid.UUID]*memorySession
}

// memorySession is a session of a Memory.
type memorySession struct {
	Record
	leases int
	used   time.Time
}

// NewMemory returns an empty store with a clock.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{
		now:  now,
		runs: make(map[string]*memorySession), sessions: make(map[uuid.UUID]*memorySession), leases: make(map[uuid.UUID]*memorySession),
	}
}

// Create implements [Store].
func (m *Memory) Create(_ context.Context, rec Record, limit int) (*Record, error) {
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
func (m *Memory) Get(_ context.Context, runID string) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.runs[runID]; s != nil {
		rec := s.Record
		return &rec, nil
	}
	return nil, nil
}

// Enter implements [Store].
func (m *Memory) Enter(_ context.Context, id, lease uuid.UUID) (bool, error) {
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
func (m *Memory) Leave(_ context.Context, lease uuid.UUID) error {
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
func (m *Memory) MarkClosing(_ context.Context, runID string) (*Record, error) {
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
func (m *Memory) MarkIdle(_ context.Context, unused time.Duration) (idle []Record, _ error) {
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
func (m *Memory) Delete(_ context.Context, id uuid.UUID) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sessions[id]; s != nil {
		if s.leases > 0 {
			return false, nil
		}
		delete(m.sessions, id)
		delete(m.runs, s.RunID)
	}
	return true, nil
}

// Count implements [Store].
func (m *Memory) Count(context.Context) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.runs), nil
}
