package coaching

import (
	"context"
	"slices"
	"time"

	"agentd/coaching/human"
	"agentd/protocol"
)

// personTask is a request that people were asked. Callers join it by its ID, so that
// an orchestrator whose connection broke does not ask twice.
type personTask struct {
	id     string
	posted time.Time
	done   chan struct{}
	answer *protocol.HumanCoachingResponse // once done
	err    error                           // once done
}

// has reports whether there is a task with this ID.
func (p *people) has(id string) bool {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	return p.tasks[id] != nil
}

// join returns the task with this ID. It posts one if there is none.
func (p *people) join(ask *protocol.HumanCoachingRequest, held *lease) (t *personTask, joined bool, err error) {
	s := p.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := p.tasks[ask.RequestID]; t != nil {
		return t, true, nil
	}
	if s.running >= s.bound {
		return nil, false, s.full()
	}
	// The task outlives its caller. It is held twice: as it is, and as it is sent.
	bytes := 2 * int64(len(ask.Payload)+len(ask.RenderedPrompt))
	if err := s.reserve(bytes); err != nil {
		return nil, false, err
	}
	t = &personTask{id: ask.RequestID, posted: s.service.opts.Now(), done: make(chan struct{})}
	p.tasks[t.id] = t
	s.running++
	held.hold()
	go p.await(t, ask, bytes, held)
	return t, false, nil
}

// await waits for a person. A session that closes first withdraws the task. One that
// outlives this server does not, since another server may go on. It releases the bytes
// and the lease of the task.
func (p *people) await(t *personTask, ask *protocol.HumanCoachingRequest, bytes int64, held *lease) {
	s := p.session
	t.answer, t.err = p.human.Ask(s.open, ask)
	p.breaker.observe(t.err)
	if t.err != nil && s.open.Err() != nil {
		if t.err = context.Canceled; s.outlived.Load() {
			t.err = ErrShutdown
		} else {
			p.withdraw(t.id)
		}
	}
	held.drop()
	s.unreserve(bytes)
	s.mu.Lock()
	s.running--
	if t.err != nil {
		delete(p.tasks, t.id) // the same request may ask again
	} else {
		p.keep(t.id)
	}
	close(t.done)
	s.releaseIfDone()
}

// withdraw takes a task back from the people.
func (p *people) withdraw(id string) {
	s := p.session
	ctx, cancel := context.WithTimeout(s.hard, withdrawTimeout)
	defer cancel()
	if err := p.human.Withdraw(ctx, id); err != nil {
		s.service.opts.Log.Warn().Err(err).Str("run_id", shorten(s.record.RunID, maxLogID)).Str("task", id).Msg("task not withdrawn from people")
	}
}

// keep keeps the answer of a task until a caller takes it, since the one who asked may
// have lost its connection. The lock is held.
func (p *people) keep(id string) {
	p.undelivered = append(p.undelivered, id)
	if len(p.undelivered) > maxUndelivered {
		delete(p.tasks, p.undelivered[0])
		p.undelivered = p.undelivered[1:]
	}
}

// take counts a task's answer as delivered.
func (p *people) take(t *personTask) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if p.tasks[t.id] != t {
		return
	}
	delete(p.tasks, t.id)
	if i := slices.Index(p.undelivered, t.id); i >= 0 {
		p.undelivered = slices.Delete(p.undelivered, i, i+1)
	}
}

// humanRetry logs that a task is posted again.
func (s *session) humanRetry(f human.Failure) {
	s.service.opts.Log.Debug().Err(f.Err).Str("run_id", shorten(s.record.RunID, maxLogID)).Int("try", f.Try).Dur("wait", f.Wait).Msg("human endpoint unreachable; retrying")
}
