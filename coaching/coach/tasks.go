package coach

import (
	"context"
	"sync"
	"time"

	"agentd/coaching/human"
	"agentd/coaching/session"
	"agentd/coaching/store"
	"agentd/internal/base/lru"
	"agentd/protocol"
)

const (
	// withdrawTimeout is the timeout of requests that withdraw tasks from people: an
	// endpoint that hangs must not block a closing session.
	withdrawTimeout = 5 * time.Second
	// MaxUndelivered bounds the number of people's answers that a session keeps for callers whose connection broke.
	MaxUndelivered = 64
)

// tasks are the tasks of the people at an endpoint. They continue when a caller loses its connection.
type tasks struct {
	env      *Env
	endpoint string
	human    *human.Coach

	mu      sync.Mutex
	running map[string]*task  // by ID
	done    *lru.Cache[*task] // the last answered ones
}

// task is a request that was sent to people. Callers join it by its ID, so that an
// orchestrator whose connection broke does not ask twice.
type task struct {
	id     string
	posted time.Time
	done   chan struct{}
	answer *protocol.HumanCoachingResponse // once done
	err    error                           // once done
}

// has reports whether there is a task with this ID.
func (p *tasks) has(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.find(id) != nil
}

// find returns the task with this ID, nil if there is none. The lock is held.
func (p *tasks) find(id string) *task {
	if t := p.running[id]; t != nil {
		return t
	}
	t, _ := p.done.Get(id)
	return t
}

// join returns the task with this ID. If there is none, it posts one, and calls ended at its end. The
// error is a *store.FullError.
func (p *tasks) join(ask *protocol.HumanCoachingRequest, held *store.Lease, ended func(error)) (t *task, joined bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.find(ask.RequestID); t != nil {
		return t, true, nil
	}
	// The task outlives its caller. It is held twice: as it is, and as it is sent.
	bytes := 2 * int64(len(ask.Payload)+len(ask.RenderedPrompt))
	if err := p.env.Session.EnterTask(bytes); err != nil {
		return nil, false, err
	}
	t = &task{id: ask.RequestID, posted: p.env.Now(), done: make(chan struct{})}
	p.running[t.id] = t
	held.Hold() // beside the request
	go func() {
		p.await(t, ask, ended)
		held.Drop()
		p.end(t, bytes)
	}()
	return t, false, nil
}

// await waits for a person. If the session closes first, it withdraws the task, unless the
// session outlives this server and another server may continue.
func (p *tasks) await(t *task, ask *protocol.HumanCoachingRequest, ended func(error)) {
	s := p.env.Session
	t.answer, t.err = p.human.Ask(s.Open, ask)
	ended(t.err)
	if t.err == nil || s.Open.Err() == nil {
		return
	}
	if t.err = context.Canceled; s.Outlived() {
		t.err = session.ErrShutdown
		return
	}
	p.Withdraw(t.id)
}

// Withdraw withdraws tasks from the people, until one fails.
func (p *tasks) Withdraw(ids ...string) {
	ctx, cancel := context.WithTimeout(p.env.Session.Abort, withdrawTimeout)
	defer cancel()
	for _, id := range ids {
		if err := p.human.Withdraw(ctx, id); err != nil {
			p.env.Log.Warn().Err(err).Str("task", id).Msg("task not withdrawn from people")
			return
		}
	}
}

// end removes a task from the running ones. It keeps an answer, since the caller may have lost its
// connection. After an error the same request may ask again.
func (p *tasks) end(t *task, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, t.id)
	if t.err == nil {
		p.done.Add(t.id, t, len(t.answer.AppendJSON(nil)))
	}
	close(t.done)
	p.env.Session.LeaveTask(bytes)
}
