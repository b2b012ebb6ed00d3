package coaching

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"agentd/coaching/egress"
	"agentd/coaching/human"
	"agentd/protocol"
)

// People coach every session on behalf of the server's operator, beside the
// session's own backends. A session of provider human has its own people, who are
// asked alone.
type People struct {
	Endpoint string // "": nobody
	When     string // PeopleFirst or PeopleFailed; "": PeopleFirst
}

// When people are asked.
const (
	PeopleFirst  = "first"  // before the backends, which are asked if no person answers
	PeopleFailed = "failed" // if the backends gave no correction
)

// policy is where connections for these people may go: to their endpoint, which the
// operator chose and which so may have a private address. The error is about an
// endpoint that is not such a URL.
func (p People) policy() (*egress.Policy, error) {
	if !slices.Contains([]string{"", PeopleFirst, PeopleFailed}, p.When) {
		return nil, fmt.Errorf("people can be asked %s or %s, not %q", PeopleFirst, PeopleFailed, p.When)
	}
	return egress.PolicyFor(p.Endpoint)
}

// Check returns what is wrong with the endpoint, nil if nothing is.
func (p People) Check() error {
	_, err := p.policy()
	return err
}

// people is the coach of an endpoint where people work. Its tasks outlive callers
// that lose their connection. The session's lock guards tasks and undelivered.
type people struct {
	session  *session
	endpoint string
	human    *human.Coach
	breaker  *breaker // nil for a session's own people, who are asked alone
	last     bool     // asked after the models

	tasks       map[string]*personTask
	undelivered []string // IDs of tasks whose answer nobody took yet, oldest first
}

// newPeople makes the coach of an endpoint.
func (s *session) newPeople(endpoint string, client *egress.Client, o Options) *people {
	return &people{
		session: s, endpoint: endpoint, tasks: make(map[string]*personTask),
		human: human.New(endpoint, client, human.Options{Sleep: o.Sleep, Rand: o.Rand, Now: o.Now, Log: s.humanRetry}),
	}
}

// wait posts the request to the people, or joins its task, and waits.
func (p *people) wait(ctx context.Context, r *request) (reply, error) {
	if p.last && p.session.open.Err() != nil {
		return reply{}, errSessionClosing
	}
	ctx, cancel := p.session.within(ctx)
	defer cancel()
	if err := p.breaker.check(); err != nil && !p.has(r.id) {
		r.log.peopleSkipped(p.endpoint, err)
		return failed("no person was asked: %v", err), nil
	}
	ask := r.repair().HumanRequest(r.id)
	t, joined, err := p.join(ask, r.lease)
	if err != nil {
		return reply{}, r.service.metrics.full("requests", err)
	}
	r.log.task(p.endpoint, ask, t.posted, joined)
	select {
	case <-t.done:
	case <-ctx.Done():
		// The hard end of the session also ends the task, which is then reported.
		if p.session.hard.Err() == nil {
			return interrupted(ctx)
		}
		<-t.done
	}
	p.take(t)
	r.attempts++
	given := p.read(r, t)
	given.byPerson = t.answer != nil
	if given.final {
		r.provider = protocol.ProviderHuman
	}
	return given, nil
}

// read is the reply of a task that is done.
func (p *people) read(r *request, t *personTask) reply {
	if t.err != nil {
		r.log.taskFailed(t.err)
		if errors.Is(t.err, ErrShutdown) {
			return failed("the server shut down before a person had answered; ask again, and the task goes on").last()
		}
		if errors.Is(t.err, context.Canceled) {
			return abandoned("the coaching session was closed before a person had answered; the task was withdrawn").last()
		}
		return failed("no person gave an answer: %v", t.err)
	}
	r.log.person(t.answer)
	switch t.answer.Status {
	case protocol.HumanSkipped:
		return abandoned("the person skipped the task: %s", t.answer.Error).last()
	case protocol.HumanAborted:
		return failed("the person aborted the task: %s", t.answer.Error)
	}
	v, err := r.redacted().ReadHuman(*t.answer.Output)
	switch {
	case err != nil:
		return abandoned("the person's answer is not a valid correction: %v", err)
	case !v.Corrected:
		return abandoned("the person declined: %s", v.Why).last()
	}
	return corrected(v)
}
