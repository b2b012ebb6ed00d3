package coaching

import (
	"context"
	"sync"

	"agentd/protocol"
)

// answerCache keeps a session's answers by their request. An orchestrator that
// posts a request again gets the same answer, and no coach is asked twice. Callers of a
// request that is in progress wait for its answer. The oldest answers are evicted.
type answerCache struct {
	shared *byteBudget // for the answers of all sessions

	mu      sync.Mutex
	entries map[string]*cacheEntry
	kept    []*cacheEntry // oldest first
	bytes   int64
}

// cacheEntry is an answer that is there, or that a caller is waiting for.
type cacheEntry struct {
	id     string
	done   chan struct{}
	answer answer // once done
	bytes  int64
}

// answer is a response and how it was made. res is nil if its caller left.
type answer struct {
	res      *protocol.SpecializedCoachingResponse
	provider string // of the coach who gave it
	keep     bool
	repeated bool // it was given before, by another server
}

// do returns the answer to the request with this id. If an earlier caller has asked, it waits
// for that answer and repeated is true. Otherwise it calls find.
func (a *answerCache) do(ctx context.Context, id string, find func() (answer, error)) (found answer, repeated bool, err error) {
	for {
		e, first := a.claim(id)
		if first {
			found, err = a.find(e, find)
			return found, false, err
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			return answer{}, true, ctx.Err()
		}
		if e.answer.res != nil {
			return e.answer, true, nil
		}
	}
}

// claim returns the entry of id. If first is true, the caller finds its answer.
func (a *answerCache) claim(id string) (e *cacheEntry, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.entries[id]; e != nil {
		return e, false
	}
	e = &cacheEntry{id: id, done: make(chan struct{})}
	if a.entries == nil {
		a.entries = make(map[string]*cacheEntry)
	}
	a.entries[id] = e
	return e, true
}

// find finds the answer of an entry and wakes those who wait for it, also in a panic.
func (a *answerCache) find(e *cacheEntry, find func() (answer, error)) (found answer, err error) {
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		e.answer = found
		if !found.keep || !a.keep(e) {
			delete(a.entries, e.id)
		}
		close(e.done)
	}()
	found, err = find()
	return found, err
}

// keep keeps an answer if it fits, and evicts older ones for it. The lock is held.
func (a *answerCache) keep(e *cacheEntry) bool {
	e.bytes = int64(len(e.answer.res.AppendJSON(nil)))
	if e.bytes > MaxAnswerBytes {
		return false
	}
	for len(a.kept) >= MaxAnswers || a.bytes+e.bytes > MaxAnswerBytes {
		a.evict()
	}
	for !a.shared.take(e.bytes) {
		if len(a.kept) == 0 {
			return false
		}
		a.evict()
	}
	a.kept = append(a.kept, e)
	a.bytes += e.bytes
	return true
}

// evict forgets the oldest answer. The lock is held.
func (a *answerCache) evict() {
	oldest := a.kept[0]
	a.kept = a.kept[1:]
	delete(a.entries, oldest.id)
	a.bytes -= oldest.bytes
	a.shared.release(oldest.bytes)
}

// clear forgets all answers.
func (a *answerCache) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.kept) > 0 {
		a.evict()
	}
}

// answerOnce is answer, unless another server has the answer or is about to have it.
func (r *request) answerOnce(ctx context.Context) (answer, error) {
	store, session := r.service.shared, r.session.record.ID
	if store == nil {
		return r.answer(ctx)
	}
	for {
		changed := r.service.changed()
		kept, claimed, err := store.Claim(ctx, session, r.id, r.lease.id)
		switch {
		case err != nil:
			return answer{}, err
		case kept != nil:
			return read(kept)
		case claimed:
			return r.settle(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return answer{}, ctx.Err()
		case <-r.session.hard.Done():
			return answer{}, ErrShutdown
		}
	}
}

// settle finds the answer that this request has claimed, and gives it to other servers.
func (r *request) settle(ctx context.Context) (found answer, err error) {
	store, session := r.service.shared, r.session.record.ID
	var keep *Kept
	settled := false
	defer func() {
		if !settled { // a panic must not leave others waiting
			_, _ = store.Settle(context.WithoutCancel(ctx), session, r.id, r.lease.id, nil)
		}
	}()
	found, err = r.answer(ctx)
	if err == nil && found.keep {
		keep = &Kept{found.provider, found.res.AppendJSON(nil)}
	}
	first, failed := store.Settle(context.WithoutCancel(ctx), session, r.id, r.lease.id, keep)
	settled = true
	switch {
	case failed != nil && keep != nil:
		// A caller that sends the request again must get the same answer, so one that is
		// not kept is not given: the caller gets a 503.
		r.service.opts.Log.Warn().Err(failed).Str("run_id", shorten(r.req.RunID, maxLogID)).Msg("coaching answer not kept in the store; the caller gets 503 and may try again")
		return answer{}, &StoreError{failed}
	case keep != nil && first != nil && string(first.Response) != string(keep.Response):
		// This server was away for so long that another one took over.
		return read(first)
	}
	return found, err
}

// read decodes a kept answer.
func read(kept *Kept) (answer, error) {
	res, err := protocol.DecodeSpecializedCoachingResponse(kept.Response)
	if err != nil {
		return answer{}, &StoreError{err}
	}
	return answer{res: res, provider: kept.Provider, keep: true, repeated: true}, nil
}
