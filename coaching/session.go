package coaching

import (
	"context"
	"fmt"
	"sync"
	"time"

	"agentd/coaching/backend"
	"agentd/coaching/egress"
	"agentd/coaching/human"
	"agentd/protocol"

	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"
)

// session is what runs for a session on this server: the pool of its requests
// and what they use. Once it is sealed nothing enters, and the last one that
// leaves releases it.
type session struct {
	record Record
	runID  string

	client   *egress.Client
	redactor *egress.Redactor
	backends []backend.Backend // in the order of the configuration; none when only people coach

	coach    *human.Coach   // nil when only models coach
	endpoint string         // of coach
	own      *egress.Client // of coach, where the operator named it; else nil

	workers int
	bound   int // callers, and tasks for people
	slots   *semaphore.Weighted
	room    room  // for its own requests
	shared  *room // for those of all sessions
	given   responses

	// open ends when the session is sealed: nobody waits for a person then. hard
	// ends when requests in work are to be broken off, too.
	open, hard       context.Context
	stopOpen, cancel context.CancelFunc
	now              func() time.Time
	log              zerolog.Logger
	forget           func() // called once it is released
	released         chan struct{}

	mu       sync.Mutex
	sealed   bool
	callers  int
	running  int // tasks that are being asked
	lastUsed time.Time
	average  time.Duration // that a request takes
	tasks    map[string]*task
	kept     []string // ids of tasks whose answer nobody has taken yet, oldest first
}

// enter counts a caller in, whose request has so many bytes; leave must follow.
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
	s.lastUsed = s.now()
	return nil
}

// full is the error of a caller for whom there is no room. The lock is held.
func (s *session) full() *FullError {
	wait := maxRetryAfter
	if s.coach == nil {
		wait = s.average * time.Duration(s.bound) / time.Duration(2*s.workers)
	}
	wait = min(max(wait, minRetryAfter), maxRetryAfter).Round(time.Second)
	return &FullError{
		What:       fmt.Sprintf("the coaching session of this run has %d requests in work or waiting, the most that it takes", s.bound),
		RetryAfter: wait,
	}
}

// leave counts a caller out; took is how long it was in work, 0 when it was not.
func (s *session) leave(took time.Duration, bytes int64) {
	s.unreserve(bytes)
	s.mu.Lock()
	s.callers--
	s.lastUsed = s.now()
	if took > 0 {
		if s.average == 0 {
			s.average = took
		}
		s.average += time.Duration(durationSmoothing * float64(took-s.average))
	}
	s.releaseIfDone()
}

// touch counts as a use.
func (s *session) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastUsed = s.now()
}

// idleSince returns when the session was last used; ok is false while it is in
// use.
func (s *session) idleSince() (since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastUsed, s.callers == 0 && s.running == 0
}

// seal lets nobody in any more and gives up waiting for people. It may be called
// again. What is released is told by the channel.
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

// releaseIfDone gives the lock back, and releases everything if the session is
// sealed and empty: true for one caller only, since nobody enters any more.
func (s *session) releaseIfDone() {
	done := s.sealed && s.callers == 0 && s.running == 0
	s.mu.Unlock()
	if !done {
		return
	}
	s.cancel()
	s.close()
	s.given.clear()
	s.forget()
	close(s.released)
}

// close ends its connections.
func (s *session) close() {
	s.client.Close()
	if s.own != nil {
		s.own.Close()
	}
}

// within is a context of the caller's that also ends when requests in work are
// broken off.
func (s *session) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.hard, func() { cancel(ErrShutdown) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// newSession makes what a session needs to run.
func (s *Service) newSession(runID string, rec Record) (*session, error) {
	cfg := rec.Config
	clientOptions := s.opts.Egress
	clientOptions.ConnectTimeout = protocol.Seconds(cfg.ConnectTimeout)
	keys := []protocol.Headers{egress.QueryKeys(cfg.Endpoint), egress.QueryKeys(s.opts.People.Endpoint)}
	for _, def := range cfg.Backends {
		keys = append(keys, def.Headers, egress.QueryKeys(def.Endpoint))
	}
	sess := &session{
		record: rec, runID: runID,
		client:   s.opts.Policy.NewClient(clientOptions),
		redactor: egress.NewRedactor(keys...),
		workers:  s.opts.Workers,
		bound:    s.opts.Workers + s.opts.Queue,
		slots:    semaphore.NewWeighted(int64(s.opts.Workers)),
		room:     room{most: s.opts.MaxBytes / sessionShare},
		shared:   &s.room,
		given:    responses{shared: &s.answers},
		now:      s.opts.Now,
		log:      s.opts.Log,
		forget:   func() { s.forget(rec.ID) },
		released: make(chan struct{}),
		lastUsed: s.opts.Now(),
		tasks:    make(map[string]*task),
	}
	sess.hard, sess.cancel = context.WithCancel(s.base)
	sess.open, sess.stopOpen = context.WithCancel(sess.hard)
	if cfg.Provider == protocol.ProviderHuman {
		sess.ask(cfg.Endpoint, sess.client, s.opts)
		return sess, nil
	}
	if s.people != nil {
		sess.own = s.people.NewClient(clientOptions)
		sess.ask(s.opts.People.Endpoint, sess.own, s.opts)
	}
	for _, def := range cfg.Backends {
		b, err := backend.New(def, backend.Options{Client: sess.client, Local: &s.local, Redactor: sess.redactor})
		if err != nil {
			sess.cancel()
			sess.close()
			return nil, protocol.Problems{protocol.NewProblem(protocol.TypeValue, sess.redactor.Text(err.Error()), "backends", def.Name)}
		}
		sess.backends = append(sess.backends, b)
	}
	return sess, nil
}

// ask lets the people at an endpoint coach.
func (s *session) ask(endpoint string, client *egress.Client, o Options) {
	s.endpoint = endpoint
	s.coach = human.New(endpoint, client, human.Options{Sleep: o.Sleep, Rand: o.Rand, Now: o.Now, Log: s.postedAgain})
}
