package session

import (
	"context"
	"sync"
	"sync/atomic"

	"agentd/coaching/store"
	"agentd/protocol"
)

// Answers are a session's answers by their request. An orchestrator that
// posts a request again gets the same answer, and no coach is asked twice. Callers of a
// request that is in progress wait for its answer. The oldest answers are evicted.
type Answers struct {
	shared *Budget // for the answers of all sessions

	mu      sync.Mutex
	entries map[string]*entry
	kept    []*entry // oldest first
	bytes   int64
}

// entry is an answer that is kept or that is being found.
type entry struct {
	id     string
	done   chan struct{}
	answer Answer // once done
	bytes  int64
}

// Answer is a response and how it was made.
type Answer struct {
	Response *protocol.SpecializedCoachingResponse // nil if its caller left
	Provider string                                // of the coach who gave it
	Keep     bool                                  // keep it for a repeated request
	Repeated bool                                  // another server gave it before
}

// Do returns the answer to the request with this id. If an earlier caller has asked, it waits
// for that answer and repeated is true. Otherwise it calls find.
func (a *Answers) Do(ctx context.Context, id string, find func() (Answer, error)) (found Answer, repeated bool, err error) {
	for {
		e, first := a.claim(id)
		if first {
			found, err = a.find(e, find)
			return found, false, err
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			return Answer{}, true, ctx.Err()
		}
		if e.answer.Response != nil {
			return e.answer, true, nil
		}
	}
}

// claim returns the entry of id. If first is true, the caller must call find.
func (a *Answers) claim(id string) (e *entry, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.entries[id]; e != nil {
		return e, false
	}
	e = &entry{id: id, done: make(chan struct{})}
	if a.entries == nil {
		a.entries = make(map[string]*entry)
	}
	a.entries[id] = e
	return e, true
}

// find finds the answer of an entry and wakes those who wait for it, also in a panic.
func (a *Answers) find(e *entry, find func() (Answer, error)) (found Answer, err error) {
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		e.answer = found
		if !found.Keep || !a.keep(e) {
			delete(a.entries, e.id)
		}
		close(e.done)
	}()
	return find()
}

// keep keeps an answer if it fits, and evicts older ones for it. The lock is held.
func (a *Answers) keep(e *entry) bool {
	e.bytes = int64(len(e.answer.Response.AppendJSON(nil)))
	if e.bytes > store.MaxAnswerBytes {
		return false
	}
	for len(a.kept) >= store.MaxAnswers || a.bytes+e.bytes > store.MaxAnswerBytes {
		a.evict()
	}
	for !a.shared.Take(e.bytes) {
		if len(a.kept) == 0 {
			return false
		}
		a.evict()
	}
	a.kept = append(a.kept, e)
	a.bytes += e.bytes
	return true
}

// evict removes the oldest answer. The lock is held.
func (a *Answers) evict() {
	oldest := a.kept[0]
	a.kept = a.kept[1:]
	delete(a.entries, oldest.id)
	a.bytes -= oldest.bytes
	a.shared.Release(oldest.bytes)
}

// clear removes all answers.
func (a *Answers) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.kept) > 0 {
		a.evict()
	}
}

// Budget bounds the bytes of requests or answers, which a limit of their number does not, since
// one may be as long as a body. A single request always fits.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of this many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{limit: bytes} }

// Take takes n bytes. It returns false if too few are left.
func (b *Budget) Take(n int64) bool {
	if used := b.used.Add(n); used > b.limit && used > n {
		b.used.Add(-n)
		return false
	}
	return true
}

// Release gives n bytes back.
func (b *Budget) Release(n int64) { b.used.Add(-n) }

// Used returns the number of taken bytes.
func (b *Budget) Used() int64 { return b.used.Load() }
