package coaching

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"agentd/coaching/backend"
	"agentd/coaching/coach"
	"agentd/coaching/egress"
	"agentd/coaching/internal/quote"
	"agentd/coaching/session"
	"agentd/coaching/store"
	"agentd/protocol"
)

// Service holds the coaching sessions and answers their requests. Its methods
// may be called from any goroutine.
type Service struct {
	rooms
	leases *store.Leases

	reaching   atomic.Int64 // configurations whose backends are being called
	stopBase   context.CancelCauseFunc
	stopAlive  context.CancelFunc
	background sync.WaitGroup // closings and the sweeper
	watching   sync.WaitGroup // the watcher of a shared store

	mu       sync.Mutex
	closed   bool
	sessions map[uuid.UUID]*room
}

// New returns a service. Close it. New fails if metrics of the same names are
// registered already.
func New(o Options) (*Service, error) {
	o = o.withDefaults()
	s := &Service{
		rooms:    rooms{opts: o, requestBytes: session.NewBudget(o.MaxBytes), answerBytes: session.NewBudget(allAnswerBytes)},
		leases:   store.NewLeases(o.Store, o.Log),
		sessions: make(map[uuid.UUID]*room),
	}
	s.base, s.stopBase = context.WithCancelCause(context.Background())
	s.alive, s.stopAlive = context.WithCancel(s.base)
	var err error
	if o.People.Endpoint != "" {
		if s.people, err = o.People.policy(); err != nil {
			return nil, err
		}
		s.breaker = &coach.Breaker{
			Endpoint: o.People.Endpoint, Client: func() *egress.Client { return s.people.NewClient(o.Egress) },
			Alive: s.alive, Go: s.inBackground, Sleep: o.Sleep, Now: o.Now, Log: o.Log,
		}
	}
	if s.metrics, err = newMetrics(o.Registerer, s.countSessions, s.countTasks); err != nil {
		return nil, err
	}
	if s.opts.Idle > 0 {
		s.background.Go(s.sweepLoop)
	}
	if _, shared := o.Store.(store.Shared); shared {
		s.watching.Go(func() { s.leases.Watch(s.base, s.running, func(id uuid.UUID) { s.seal(id) }) })
	}
	return s, nil
}

// SetLocal sets the model of backends of type local, before any session.
func (s *Service) SetLocal(model backend.Local) { s.opts.Local = model }

// Configure opens the run's session. The same configuration again changes nothing. The
// error is protocol.Problems if the server may not use an endpoint or header or has no model that
// coaches, and ErrConflict or ErrClosing if the run has another configuration or is closing. It is a
// *FullError if there are too many sessions, or ErrShutdown.
func (s *Service) Configure(ctx context.Context, runID string, cfg *protocol.CoachingSessionConfig) error {
	if err := s.opts.Policy.CheckConfig(cfg); err != nil {
		return err
	}
	rec := store.Record{ID: uuid.New(), RunID: runID, Config: cfg, State: store.Configured}
	existing, err := s.opts.Store.Create(ctx, rec, s.opts.MaxSessions)
	switch {
	case err != nil:
		return s.metrics.full("sessions", err)
	case existing == nil:
	case existing.State == store.Closing:
		return ErrClosing
	case !existing.Config.Equal(cfg):
		return ErrConflict
	default:
		rec = *existing
	}
	sess, err := s.session(rec)
	if err != nil {
		if existing == nil { // nothing runs for it, so undo the configuration
			_, failed := s.opts.Store.Delete(ctx, rec.ID)
			err = cmp.Or(failed, err)
		}
		return err
	}
	if err := s.confirm(ctx, sess); err != nil {
		return err
	}
	if existing == nil {
		if cfg.Provider == protocol.ProviderHuman && len(cfg.Backends) > 0 {
			s.opts.Log.Warn().Str("run_id", quote.ID(runID)).
				Msg("with provider human no backend is asked; for both, send provider llm to a server with coach-human")
		}
		s.opts.Log.Info().Str("run_id", quote.ID(runID)).Str("provider", cfg.Provider).Int("backends", len(cfg.Backends)).Msg("coaching session configured")
	}
	return nil
}

// session returns the room of a record, and makes it if there is none.
func (s *Service) session(rec store.Record) (*room, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrShutdown
	}
	if sess := s.sessions[rec.ID]; sess != nil {
		return sess, nil
	}
	sess, err := s.open(rec, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions, rec.ID)
	})
	if err == nil {
		s.sessions[rec.ID] = sess
	}
	return sess, err
}

// running returns the sessions with a room here.
func (s *Service) running() []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.sessions))
}

// seal seals a session that is closing. The channel is closed once its room is released, nil if
// it has none here.
func (s *Service) seal(id uuid.UUID) <-chan struct{} {
	s.mu.Lock()
	sess := s.sessions[id]
	s.mu.Unlock()
	if sess == nil {
		return nil
	}
	return sess.Seal()
}

// confirm seals the session unless the store still has it as configured: it may have begun to close
// after the lookup and before sess was made, and then nothing else would release it.
func (s *Service) confirm(ctx context.Context, sess *room) error {
	rec, err := s.opts.Store.Get(ctx, sess.Record.RunID)
	if err == nil && (rec == nil || rec.ID != sess.Record.ID || rec.State != store.Configured) {
		sess.Seal()
	}
	return err
}

// acquire counts a request of this many bytes into the run's session. The lease's Drop and then the
// session's Leave must be called.
func (s *Service) acquire(ctx context.Context, runID string, bytes int64) (*room, *store.Lease, error) {
	rec, err := s.opts.Store.Get(ctx, runID)
	switch {
	case err != nil:
		return nil, nil, err
	case rec == nil:
		return nil, nil, ErrUnknown
	case rec.State != store.Configured:
		return nil, nil, session.ErrSealed
	}
	sess, err := s.session(*rec)
	if err != nil {
		return nil, nil, err
	}
	if err := sess.Enter(bytes); err != nil {
		return nil, nil, err
	}
	// A close waits for a request with a lease.
	lease, ok, err := s.leases.Enter(ctx, sess.Record)
	if ok {
		return sess, lease, nil
	}
	if err == nil { // it began to close after the lookup, perhaps before sess was made
		sess.Seal()
		err = session.ErrSealed
	}
	sess.Leave(bytes)
	return nil, nil, err
}

// CloseSession closes the run's session: no request enters any more, requests in it finish, tasks for people are
// withdrawn, and connections are released. It returns when that is done; if ctx ends first, it returns ctx's error and
// the close continues in the background. The error is ErrUnknown if the run has no session or it is closing already.
func (s *Service) CloseSession(ctx context.Context, runID string) error {
	return s.closeMarked(ctx, func(ctx context.Context) ([]store.Record, error) {
		rec, err := s.opts.Store.MarkClosing(ctx, runID)
		if err != nil || rec == nil {
			return nil, cmp.Or(err, ErrUnknown)
		}
		return []store.Record{*rec}, nil
	})
}

// closeMarked closes the sessions that mark has marked as closing.
func (s *Service) closeMarked(ctx context.Context, mark func(context.Context) ([]store.Record, error)) error {
	// Close waits for this, since a marked session must not stay in a store that
	// outlives this server.
	if !s.begin() {
		return ErrShutdown
	}
	recs, err := mark(context.WithoutCancel(ctx)) // closing goes on when the caller leaves
	if err != nil || len(recs) == 0 {
		s.background.Done()
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer s.background.Done()
		var group sync.WaitGroup
		failures := make([]error, len(recs))
		for i, rec := range recs {
			group.Go(func() { failures[i] = s.finish(rec) })
		}
		group.Wait()
		done <- errors.Join(failures...)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish waits until a closing session is released here and on other servers, then removes
// it from the store.
func (s *Service) finish(rec store.Record) error {
	defer s.withdraw(rec)
	if released := s.seal(rec.ID); released != nil {
		<-released
	}
	for {
		changed := s.leases.Changed()
		// The run must not stay closing if the caller of DELETE has left.
		gone, err := s.opts.Store.Delete(context.WithoutCancel(s.base), rec.ID)
		if err != nil || gone {
			s.opts.Log.Info().Err(err).Str("run_id", quote.ID(rec.RunID)).Msg("coaching session closed")
			return err
		}
		select {
		case <-changed:
		case <-s.alive.Done(): // the last server that leaves the session removes it
			return ErrShutdown
		}
	}
}

// withdraw withdraws what people have of a closed session, as from a server that crashed.
func (s *Service) withdraw(rec store.Record) {
	if len(rec.Unanswered) == 0 || rec.Config == nil {
		return
	}
	people := *rec.Config
	people.Backends, rec.Config = nil, &people // no model is asked, and this server's may not be loaded yet
	r, err := s.open(rec, func() {})
	if err != nil {
		s.opts.Log.Warn().Err(err).Str("run_id", quote.ID(rec.RunID)).Msg("tasks not withdrawn from people")
		return
	}
	defer r.Seal()
	for _, c := range r.coaches {
		if people, ok := c.(*coach.People); ok {
			people.Withdraw(rec.Unanswered...)
		}
	}
}

// begin counts background work; s.background.Done must be called. It returns false if the service is closed.
func (s *Service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.background.Add(1)
	}
	return !s.closed
}

// inBackground runs f in the background, unless the service is closed.
func (s *Service) inBackground(f func()) (started bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.background.Go(f)
	}
	return !s.closed
}

// Close closes all sessions and waits, like CloseSession. If ctx ends first, it aborts requests in progress and returns
// ctx's error. Once it was called, other methods fail with ErrShutdown.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	sessions := slices.Collect(maps.Values(s.sessions))
	s.mu.Unlock()
	s.stopAlive()
	_, shared := s.opts.Store.(store.Shared)
	var released []<-chan struct{}
	for _, sess := range sessions {
		if shared {
			sess.Outlive()
		}
		released = append(released, sess.Seal())
	}
	stop := context.AfterFunc(ctx, func() { s.stopBase(ErrShutdown) })
	for _, room := range released {
		<-room
	}
	s.background.Wait()
	var err error
	if !stop() {
		err = ctx.Err()
	}
	s.stopBase(ErrShutdown)
	s.watching.Wait()
	return err
}

// countSessions returns the number of sessions, for the metric.
func (s *Service) countSessions() float64 {
	ctx, cancel := context.WithTimeout(s.base, countTimeout)
	defer cancel()
	n, err := s.opts.Store.Count(ctx)
	if err != nil {
		s.opts.Log.Warn().Err(err).Msg("counting coaching sessions failed")
	}
	return float64(n)
}

// countTasks returns the number of tasks that people have not answered, for the metric.
func (s *Service) countTasks() (n float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sess := range s.sessions {
		_, tasks := sess.InProgress()
		n += float64(tasks)
	}
	return n
}

// sweepLoop closes idle sessions until the service is closed.
func (s *Service) sweepLoop() {
	pause := min(max(s.opts.Idle/4, minSweep), maxSweep)
	for s.opts.Sleep(s.alive, pause) == nil {
		s.sweep()
	}
}

// sweep closes idle sessions like DELETE, also those without a room on any server.
func (s *Service) sweep() {
	err := s.closeMarked(s.alive, func(ctx context.Context) ([]store.Record, error) {
		idle, err := s.opts.Store.MarkIdle(ctx, s.opts.Idle)
		for _, rec := range idle {
			s.opts.Log.Info().Str("run_id", quote.ID(rec.RunID)).Dur("idle", s.opts.Idle).Msg("closing idle coaching session")
		}
		return idle, err
	})
	if err != nil && s.alive.Err() == nil {
		s.opts.Log.Warn().Err(err).Msg("closing idle coaching sessions failed")
	}
}
