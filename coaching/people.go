package coaching

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"agentd/coaching/egress"
	"agentd/coaching/human"
	"agentd/protocol"

	"github.com/google/uuid"
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

// people is the coach of an endpoint where people work.
type people struct {
	session  *session
	endpoint string
	human    *human.Coach
	breaker  *breaker // nil for a session's own people, who are asked alone
	last     bool     // asked after the models
}

// newPeople makes the coach of an endpoint.
func (s *session) newPeople(endpoint string, client *egress.Client, o Options) *people {
	retrying := func(f human.Failure) {
		o.Log.Debug().Err(f.Err).Str("run_id", shorten(s.record.RunID, maxLogID)).Int("try", f.Try).Dur("wait", f.Wait).Msg("human endpoint unreachable; retrying")
	}
	return &people{
		session: s, endpoint: endpoint,
		human: human.New(endpoint, client, human.Options{Sleep: o.Sleep, Rand: o.Rand, Now: o.Now, Log: retrying}),
	}
}

// wait posts the request to the people and waits. A session that closes first withdraws the task.
// One that outlives this server does not, since another server may go on.
func (p *people) wait(r *request) (reply, error) {
	s := p.session
	if p.last && s.open.Err() != nil {
		return reply{}, errSessionClosing
	}
	if err := p.breaker.check(); err != nil {
		r.log.line("## People at %s\n", r.log.code(egress.SafeURL(p.endpoint)))
		r.log.line("Not asked: %s\n", r.log.code(err.Error()))
		return failed("no person was asked: %v", err), nil
	}
	ask := r.repair().HumanRequest(r.id)
	// Held three times, also after its caller has left: as the request, as the task, and as it is sent.
	bytes := 3 * int64(len(ask.Payload)+len(ask.RenderedPrompt))
	if err := s.reserve(bytes); err != nil {
		return reply{}, r.service.metrics.full("requests", err)
	}
	defer s.unreserve(bytes)
	r.log.task(p.endpoint, ask, r.service.opts.Now())
	answer, err := p.human.Ask(s.open, ask)
	p.breaker.observe(err)
	switch {
	case err == nil || s.open.Err() == nil:
	case s.outlived.Load():
		err = ErrShutdown
	default:
		err = context.Canceled
		p.withdraw(r.id)
	}
	r.attempts++
	given := p.read(r, answer, err)
	given.byPerson = answer != nil
	if given.final {
		r.provider = protocol.ProviderHuman
	}
	return given, nil
}

// read is the reply of a person, or of none with an error.
func (p *people) read(r *request, answer *protocol.HumanCoachingResponse, err error) reply {
	if err != nil {
		r.log.line("No answer: %s\n", r.log.code(err.Error()))
		if errors.Is(err, ErrShutdown) {
			return failed("the server shut down before a person had answered; ask again, and the task goes on").last()
		}
		if errors.Is(err, context.Canceled) {
			return abandoned("the coaching session was closed before a person had answered; the task was withdrawn").last()
		}
		return failed("no person gave an answer: %v", err)
	}
	r.log.person(answer)
	switch answer.Status {
	case protocol.HumanSkipped:
		return abandoned("the person skipped the task: %s", answer.Error).last()
	case protocol.HumanAborted:
		return failed("the person aborted the task: %s", answer.Error)
	}
	v, err := r.redacted().ReadHuman(*answer.Output)
	switch {
	case err != nil:
		return abandoned("the person's answer is not a valid correction: %v", err)
	case !v.Corrected:
		return abandoned("the person declined: %s", v.Why).last()
	}
	return corrected(v)
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

// breaker remembers that the operator's people are unreachable. Sessions then skip them
// at once, where each request would else wait for several tries. It looks for the
// endpoint in the background until it is back. A nil breaker never trips.
type breaker struct {
	service  *Service
	endpoint string

	mu     sync.Mutex
	reason error     // why the endpoint is unreachable; nil: it is not
	since  time.Time // of reason
}

// check returns why people cannot be asked now, nil if they can.
func (b *breaker) check() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason == nil {
		return nil
	}
	return fmt.Errorf("%w (since %s; agentd looks for it every %s)", b.reason, b.since.UTC().Format(time.RFC3339), probeInterval)
}

// observe takes what came of asking the endpoint.
func (b *breaker) observe(err error) {
	var failure *human.Error
	if b == nil || !errors.As(err, &failure) || failure.Kind != human.Unreachable {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason != nil || !b.service.begin() {
		return
	}
	b.reason, b.since = err, b.service.opts.Now()
	b.service.opts.Log.Warn().Err(err).Str("endpoint", egress.SafeURL(b.endpoint)).Dur("retry_every", probeInterval).
		Msg("human endpoint unreachable; coaching continues without people")
	go b.probe()
}

// probe waits until the endpoint answers again, or the service is closed.
func (b *breaker) probe() {
	s := b.service
	defer s.background.Done()
	client := s.people.NewClient(s.opts.Egress)
	defer client.Close()
	endpoint := human.New(b.endpoint, client, human.Options{})
	for s.opts.Sleep(s.alive, probeInterval) == nil {
		ctx, cancel := context.WithTimeout(s.alive, probeTimeout)
		err := endpoint.Reach(ctx, uuid.NewString())
		cancel()
		if err != nil {
			continue
		}
		b.mu.Lock()
		b.reason = nil
		down := s.opts.Now().Sub(b.since)
		b.mu.Unlock()
		s.opts.Log.Info().Str("endpoint", egress.SafeURL(b.endpoint)).Dur("unreachable_for", down).Msg("human endpoint reachable again")
		return
	}
}
