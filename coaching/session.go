package coaching

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"agentd/coaching/backend"
	"agentd/coaching/egress"
	"agentd/coaching/internal/quote"
	"agentd/protocol"

	"golang.org/x/sync/semaphore"
)

// session holds what runs for a session on this server: its requests, and the coaches and
// connections that they use. Nothing enters once it is sealed. The last request that
// leaves releases it.
type session struct {
	service *Service
	record  Record

	client   *egress.Client
	redactor *quote.Redactor
	models   panel          // in the order of the configuration; none if only people coach
	people   *people        // nil if only models coach
	coaches  []coach        // models and people, in the order in which they are asked
	own      *egress.Client // of people, if the operator named them; else nil

	bound   int // callers, and tasks for people
	slots   *semaphore.Weighted
	budget  byteBudget // for its own requests
	answers answerCache

	// open ends when the session is sealed, and with it all waits for people. hard
	// ends when requests in progress are aborted, too.
	open, hard       context.Context
	stopOpen, cancel context.CancelFunc
	outlived         atomic.Bool // its store keeps the session when this server ends
	released         chan struct{}

	mu      sync.Mutex
	sealed  bool
	callers int
	running int // tasks that are being asked
}

// enter counts a caller in, whose request has this many bytes. leave must follow.
func (s *session) enter(bytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return ErrUnknown
	}
	if s.callers >= s.bound {
		return s.full()
	}
	if err := s.reserve(bytes); err != nil {
		return err
	}
	s.callers++
	return nil
}

// full is the error of a caller that the session has no slot for. The lock is held.
func (s *session) full() *FullError {
	wait := modelsRetryAfter
	if s.people != nil {
		wait = maxRetryAfter
	}
	return &FullError{
		What:       fmt.Sprintf("the coaching session of this run has %d requests in progress or waiting, its maximum", s.bound),
		RetryAfter: wait,
	}
}

// leave counts a caller out.
func (s *session) leave(bytes int64) {
	s.unreserve(bytes)
	s.mu.Lock()
	s.callers--
	s.releaseIfDone()
}

// seal lets nobody in any more and ends the waits for people. It may be called again.
// The channel is closed once the session is released.
func (s *session) seal() <-chan struct{} {
	s.mu.Lock()
	if s.sealed {
		s.mu.Unlock()
		return s.released
	}
	s.sealed = true
	s.stopOpen()
	s.releaseIfDone()
	return s.released
}

// releaseIfDone unlocks the session, and releases it if it is sealed and empty. Only one
// caller finds it so, since nobody enters any more.
func (s *session) releaseIfDone() {
	done := s.sealed && s.callers == 0 && s.running == 0
	s.mu.Unlock()
	if !done {
		return
	}
	s.cancel()
	s.close()
	s.answers.clear()
	s.service.mu.Lock()
	delete(s.service.sessions, s.record.ID)
	s.service.mu.Unlock()
	close(s.released)
}

// close ends its connections.
func (s *session) close() {
	s.client.Close()
	if s.own != nil {
		s.own.Close()
	}
}

// within is the caller's context, which also ends when requests in progress are aborted.
func (s *session) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.hard, func() { cancel(ErrShutdown) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// newSession makes what a session needs to run.
func (s *Service) newSession(rec Record) (*session, error) {
	cfg := rec.Config
	clientOptions := s.opts.Egress
	clientOptions.ConnectTimeout = protocol.Seconds(cfg.ConnectTimeout)
	keys := []protocol.Headers{quote.QueryKeys(cfg.Endpoint), quote.QueryKeys(s.opts.People.Endpoint)}
	for _, def := range cfg.Backends {
		keys = append(keys, def.Headers, quote.QueryKeys(def.Endpoint))
	}
	sess := &session{
		service: s, record: rec,
		client:   s.opts.Policy.NewClient(clientOptions),
		redactor: quote.NewRedactor(keys...),
		bound:    s.opts.Workers + s.opts.Queue,
		slots:    semaphore.NewWeighted(int64(s.opts.Workers)),
		budget:   byteBudget{limit: s.opts.MaxBytes / sessionShare},
		answers:  answerCache{shared: &s.answerBytes},
		released: make(chan struct{}),
	}
	sess.hard, sess.cancel = context.WithCancel(s.base)
	sess.open, sess.stopOpen = context.WithCancel(sess.hard)
	if cfg.Provider == protocol.ProviderHuman {
		sess.people = sess.newPeople(cfg.Endpoint, sess.client, s.opts)
		sess.coaches = []coach{sess.people}
		return sess, nil
	}
	for _, def := range cfg.Backends {
		b, err := backend.New(def, backend.Options{Client: sess.client, Local: &s.local, Redactor: sess.redactor})
		if err != nil {
			sess.cancel()
			sess.close()
			return nil, protocol.Problems{protocol.NewProblem(protocol.TypeValue, sess.redactor.Text(err.Error()), "backends", def.Name)}
		}
		sess.models = append(sess.models, &model{b, def})
	}
	sess.coaches = []coach{sess.models}
	if s.people != nil {
		sess.own = s.people.NewClient(clientOptions)
		sess.people = sess.newPeople(s.opts.People.Endpoint, sess.own, s.opts)
		sess.people.breaker = s.breaker
		if sess.people.last = s.opts.People.When == PeopleFailed; sess.people.last {
			sess.coaches = append(sess.coaches, sess.people)
		} else {
			sess.coaches = []coach{sess.people, sess.models}
		}
	}
	return sess, nil
}

// byteBudget bounds the memory of requests. Their number alone does not, since one may
// be as long as a body may be. One request always fits.
type byteBudget struct {
	limit int64
	used  atomic.Int64
}

// take takes n bytes unless too few are left.
func (b *byteBudget) take(n int64) bool {
	if used := b.used.Add(n); used > b.limit && used > n {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *byteBudget) release(n int64) { b.used.Add(-n) }

// reserve takes n bytes of the session's budget and of that of all sessions.
func (s *session) reserve(n int64) error {
	if !s.budget.take(n) {
		return &FullError{What: "the coaching session of this run has requests in progress or waiting that are too long together", RetryAfter: maxRetryAfter}
	}
	if !s.service.requestBytes.take(n) {
		s.budget.release(n)
		return &FullError{What: "the coaching requests that are in progress or waiting are too long together", RetryAfter: maxRetryAfter}
	}
	return nil
}

func (s *session) unreserve(n int64) {
	s.budget.release(n)
	s.service.requestBytes.release(n)
}
