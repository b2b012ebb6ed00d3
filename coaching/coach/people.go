package coach

import (
	"context"
	"errors"

	"agentd/coaching/egress"
	"agentd/coaching/human"
	"agentd/coaching/repair/prompt"
	"agentd/coaching/session"
	"agentd/coaching/store"
	"agentd/internal/base/lru"
	"agentd/protocol"
)

// People are the coach of an endpoint where people work.
type People struct {
	tasks
	breaker *Breaker // of the operator's people; nil for a session's own, who are asked alone
	last    bool     // asked after the models
}

// NewPeople makes the coach of an endpoint. With last the people are asked after the models, and not at all in a
// closing session. The breaker may be nil.
func NewPeople(env *Env, endpoint string, client *egress.Client, b *Breaker, last bool) *People {
	retrying := func(f human.Failure) {
		env.Log.Debug().Err(f.Err).Int("try", f.Try).Dur("wait", f.Wait).Msg("human endpoint unreachable; retrying")
	}
	return &People{
		breaker: b, last: last,
		tasks: tasks{
			env: env, endpoint: endpoint, running: make(map[string]*task),
			done:  lru.New[*task](MaxUndelivered, store.MaxAnswerBytes),
			human: human.New(endpoint, client, human.Options{Sleep: env.Sleep, Rand: env.Rand, Now: env.Now, Log: retrying}),
		},
	}
}

// Ask implements [Coach].
func (p *People) Ask(ctx context.Context, r *Request) (Reply, error) {
	return tracedPeople(ctx, p.endpoint, func(ctx context.Context) (Reply, error) { return p.wait(ctx, r) })
}

// wait posts the request to the people, or joins its task, and waits.
func (p *People) wait(ctx context.Context, r *Request) (Reply, error) {
	s := p.env.Session
	if p.last && s.Open.Err() != nil {
		return Reply{}, errClosing
	}
	ctx, cancel := s.Within(ctx)
	defer cancel()
	if err := p.breaker.Check(); err != nil && !p.has(r.ID) {
		r.Log.NotAsked(p.endpoint, err)
		return Failed("no person was asked: %v", err), nil
	}
	ask := prompt.HumanRequest(r.repair(), r.ID)
	t, joined, err := p.join(ask, r.Lease, p.breaker.Observe)
	if err != nil {
		return Reply{}, err
	}
	r.Log.Task(p.endpoint, ask, t.posted, joined)
	r.Unanswered = true
	select {
	case <-t.done:
	case <-ctx.Done():
		// The abort of the session also ends the task, which is then reported.
		if s.Abort.Err() == nil {
			return interrupted(ctx)
		}
		<-t.done
	}
	r.Attempts++
	r.Unanswered = errors.Is(t.err, session.ErrShutdown)
	given := p.read(r, t)
	given.ByPerson = t.answer != nil
	given.Decided = given.final
	return given, nil
}

// read returns the reply of an ended task.
func (p *People) read(r *Request, t *task) Reply {
	if t.err != nil {
		r.Log.NoAnswer(t.err)
		switch {
		case errors.Is(t.err, session.ErrShutdown):
			return Failed("the server shut down before a person had answered; ask again, and the task goes on").last()
		case errors.Is(t.err, context.Canceled):
			return Abandoned("the coaching session was closed before a person had answered; the task was withdrawn").last()
		}
		return Failed("no person gave an answer: %v", t.err)
	}
	r.Log.Person(t.answer)
	switch t.answer.Status {
	case protocol.HumanSkipped:
		return Abandoned("the person skipped the task: %s", t.answer.Error).last()
	case protocol.HumanAborted:
		return Failed("the person aborted the task: %s", t.answer.Error)
	}
	v, err := r.redacted().ReadHuman(*t.answer.Output)
	switch {
	case err != nil:
		return Abandoned("the person's answer is not a valid correction: %v", err)
	case !v.Corrected:
		return Abandoned("the person declined: %s", v.Why).last()
	}
	return corrected(v)
}
