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
	"agentd/coaching/repair/prompt"
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
	retrying := func(f human.Failure) {
		o.Log.Debug().Err(f.Err).Str("run_id", shorten(s.record.RunID, maxLogID)).Int("try", f.Try).Dur("wait", f.Wait).Msg("human endpoint unreachable; retrying")
	}
	return &people{
		session: s, endpoint: endpoint, tasks: make(map[string]*personTask),
		human: human.New(endpoint, client, human.Options{Sleep: o.Sleep, Rand: o.Rand, Now: o.Now, Log: retrying}),
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
		r.log.line("## People at %s\n", r.log.code(egress.SafeURL(p.endpoint)))
		r.log.line("Not asked: %s\n", r.log.code(err.Error()))
		return failed("no person was asked: %v", err), nil
	}
	ask := prompt.HumanRequest(r.repair(), r.id)
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
		r.log.line("No answer: %s\n", r.log.code(t.err.Error()))
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
	held.holders.Add(1) // beside the request
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
