package coaching

import (
	"context"
	"sync"

	"agentd/protocol"
)

// responses are what a session has answered, by what was asked: an orchestrator
// that posts a request again, since its connection broke or it was restarted, gets the same
// answer, and nobody is asked twice. The oldest ones go when they become too many.
type responses struct {
	shared *room // for those of all sessions

	mu    sync.Mutex
	given map[string]*given
	kept  []*given // oldest first
	bytes int64
}

// given is a response that is there, or that a caller is looking for.
type given struct {
	id    string
	done  chan struct{}
	found found // once done
	bytes int64
}

// found is a response; nil when the caller who looked for it left without one.
type found struct {
	res      *protocol.SpecializedCoachingResponse
	provider string // of the coach who gave it
	keep     bool
}

// once returns the response to what id stands for: that of an earlier caller, which it waits
// for, or what find finds. again tells which.
func (a *responses) once(ctx context.Context, id string, find func() (found, error)) (f found, again bool, err error) {
	for {
		g, first := a.claim(id)
		if first {
			f, err = a.find(g, find)
			return f, false, err
		}
		select {
		case <-g.done:
		case <-ctx.Done():
			return found{}, true, ctx.Err()
		}
		if g.found.res != nil {
			return g.found, true, nil
		}
	}
}

// claim returns what there is for id; first tells the caller to look for it.
func (a *responses) claim(id string) (g *given, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if g := a.given[id]; g != nil {
		return g, false
	}
	g = &given{id: id, done: make(chan struct{})}
	if a.given == nil {
		a.given = make(map[string]*given)
	}
	a.given[id] = g
	return g, true
}

// find looks for a response, and lets those go on who wait for it, also in a panic.
func (a *responses) find(g *given, find func() (found, error)) (f found, err error) {
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		g.found = f
		if !f.keep || !a.keep(g) {
			delete(a.given, g.id)
		}
		close(g.done)
	}()
	f, err = find()
	return f, err
}

// keep makes room for a response, if it can. The lock is held.
func (a *responses) keep(g *given) bool {
	g.bytes = int64(len(g.found.res.AppendJSON(nil)))
	if g.bytes > maxAnswerBytes {
		return false
	}
	for len(a.kept) >= maxAnswers || a.bytes+g.bytes > maxAnswerBytes {
		a.drop()
	}
	for !a.shared.take(g.bytes) {
		if len(a.kept) == 0 {
			return false
		}
		a.drop()
	}
	a.kept = append(a.kept, g)
	a.bytes += g.bytes
	return true
}

// drop forgets the oldest response. The lock is held.
func (a *responses) drop() {
	oldest := a.kept[0]
	a.kept = a.kept[1:]
	delete(a.given, oldest.id)
	a.bytes -= oldest.bytes
	a.shared.give(oldest.bytes)
}

// clear forgets all responses.
func (a *responses) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.kept) > 0 {
		a.drop()
	}
}
