package coaching

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"agentd/coaching/backend"
	"agentd/coaching/egress"
	"agentd/protocol"

	"github.com/google/uuid"
)

// Service holds the coaching sessions and answers their requests. Its methods
// may be called from any goroutine.
type Service struct {
	opts    Options        // with the defaults
	people  *egress.Policy // of the operator's people; nil: there are none
	breaker *breaker       // of the operator's people
	local   lateLocal
	metrics *metrics

	requestBytes byteBudget // for the requests of all sessions
	answerBytes  byteBudget // for their kept responses

	reaching atomic.Int64 // configurations whose backends are being called

	// alive ends as soon as Close is called, base when Close aborts what is in progress.
	base, alive         context.Context
	stopBase, stopAlive context.CancelFunc
	background          sync.WaitGroup // closings and the sweeper

	shared   Shared         // the store if other servers use it, too; else nil
	watching sync.WaitGroup // the watcher of a shared store

	mu       sync.Mutex
	closed   bool
	sessions map[uuid.UUID]*session
	leases   map[uuid.UUID]struct{} // that are held in the store
	change   chan struct{}          // closed when the shared store may have changed
}

// New returns a service. Close it. New fails if metrics of the same names are
// registered already.
func New(o Options) (*Service, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Service{opts: o, sessions: make(map[uuid.UUID]*session), leases: make(map[uuid.UUID]struct{}), change: make(chan struct{})}
	s.shared, _ = o.Store.(Shared)
	s.local.set(o.Local)
	s.requestBytes.limit = o.MaxBytes
	s.answerBytes.limit = allAnswerBytes
	if o.People.Endpoint != "" {
		if s.people, err = o.People.policy(); err != nil {
			return nil, err
		}
		s.breaker = &breaker{service: s, endpoint: o.People.Endpoint}
	}
	if s.metrics, err = newMetrics(o.Registerer, s.countSessions); err != nil {
		return nil, err
	}
	s.base, s.stopBase = context.WithCancel(context.Background())
	s.alive, s.stopAlive = context.WithCancel(s.base)
	if s.opts.Idle > 0 {
		s.background.Go(s.sweepLoop)
	}
	if s.shared != nil {
		s.watching.Go(s.watch)
	}
	return s, nil
}

// SetLocal sets the model of backends of type local, once it has loaded.
func (s *Service) SetLocal(model backend.Local) { s.local.set(model) }

// Configure opens the run's session. The same configuration again changes nothing. The
// error is protocol.Problems if the server may not use an endpoint or header, and ErrConflict or
// ErrClosing if the run has another configuration or is closing. It is a *FullError if there are too
// many sessions, or ErrShutdown.
func (s *Service) Configure(ctx context.Context, runID string, cfg *protocol.CoachingSessionConfig) error {
	if err := s.opts.Policy.CheckConfig(cfg); err != nil {
		return err
	}
	rec := Record{ID: uuid.New(), RunID: runID, Config: cfg, State: Configured}
	existing, err := s.opts.Store.Create(ctx, rec, s.opts.MaxSessions)
	switch {
	case err != nil:
		return s.metrics.full("sessions", err)
	case existing == nil:
	case existing.State == Closing:
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
		s.opts.Log.Info().Str("run_id", shorten(runID, maxLogID)).Str("provider", cfg.Provider).Int("backends", len(cfg.Backends)).Msg("coaching session configured")
	}
	return nil
}

// session returns what runs for a record here, and makes it if needed.
func (s *Service) session(rec Record) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrShutdown
	}
	if sess := s.sessions[rec.ID]; sess != nil {
		return sess, nil
	}
	sess, err := s.newSession(rec)
	if err == nil {
		s.sessions[rec.ID] = sess
	}
	return sess, err
}

// confirm seals the session unless the store still has it as configured. It may have begun to
// close after the lookup, perhaps before sess was made. Then nobody else would release it.
func (s *Service) confirm(ctx context.Context, sess *session) error {
	rec, err := s.opts.Store.Get(ctx, sess.record.RunID)
	if err == nil && (rec == nil || rec.ID != sess.record.ID || rec.State != Configured) {
		sess.seal()
	}
	return err
}

// acquire counts a request of this many bytes into the run's session. The lease's drop and
// then leave must follow.
func (s *Service) acquire(ctx context.Context, runID string, bytes int64) (*session, *lease, error) {
	rec, err := s.opts.Store.Get(ctx, runID)
	if err != nil {
		return nil, nil, err
	}
	if rec == nil || rec.State != Configured {
		return nil, nil, ErrUnknown
	}
	sess, err := s.session(*rec)
	if err != nil {
		return nil, nil, err
	}
	if err := sess.enter(bytes); err != nil {
		return nil, nil, err
	}
	// A close waits for a request with a lease.
	l, err := s.lease(ctx, sess)
	if err != nil {
		sess.leave(bytes)
	}
	return sess, l, err
}

// CloseSession closes the run's session. No request enters any more, those in it finish,
// tasks for people are withdrawn, and connections are released. It returns when all of
// that is done, or with ctx's error, and then goes on in the background. The error is
// ErrUnknown if the run has no session or it is closing already.
func (s *Service) CloseSession(ctx context.Context, runID string) error {
	return s.closeMarked(ctx, func(ctx context.Context) ([]Record, error) {
		rec, err := s.opts.Store.MarkClosing(ctx, runID)
		if err != nil || rec == nil {
			return nil, cmp.Or(err, ErrUnknown)
		}
		return []Record{*rec}, nil
	})
}

// closeMarked closes the sessions that mark has marked as closing.
func (s *Service) closeMarked(ctx context.Context, mark func(context.Context) ([]Record, error)) error {
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
func (s *Service) finish(rec Record) error {
	s.mu.Lock()
	sess := s.sessions[rec.ID]
	s.mu.Unlock()
	if sess != nil {
		<-sess.seal()
	}
	for {
		changed := s.changed()
		// The run must not stay closing if the caller of DELETE has left.
		gone, err := s.opts.Store.Delete(context.WithoutCancel(s.base), rec.ID)
		if err != nil || gone {
			s.opts.Log.Info().Err(err).Str("run_id", shorten(rec.RunID, maxLogID)).Msg("coaching session closed")
			return err
		}
		select {
		case <-changed:
		case <-s.alive.Done(): // the last server that leaves the session removes it
			return ErrShutdown
		}
	}
}

// begin counts background work, unless the service is closed. s.background.Done must
// follow.
func (s *Service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.background.Add(1)
	}
	return !s.closed
}

// Close closes all sessions and waits as CloseSession does. If ctx ends first, it aborts
// requests in progress and returns ctx's error. From its beginning on, other methods fail
// with ErrShutdown.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	sessions := slices.Collect(maps.Values(s.sessions))
	s.mu.Unlock()
	s.stopAlive()
	for _, sess := range sessions {
		sess.outlived.Store(s.shared != nil)
		sess.seal()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, sess := range sessions {
			<-sess.released
		}
		s.background.Wait()
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		s.stopBase()
		<-done
	}
	s.stopBase()
	s.watching.Wait()
	return err
}

// countSessions is the number of sessions, for the metric.
func (s *Service) countSessions() float64 {
	ctx, cancel := context.WithTimeout(s.base, countTimeout)
	defer cancel()
	n, err := s.opts.Store.Count(ctx)
	if err != nil {
		s.opts.Log.Warn().Err(err).Msg("counting coaching sessions failed")
	}
	return float64(n)
}

// TooManySessions is the error of [Store.Create] at its limit.
func TooManySessions(limit int) *FullError {
	return &FullError{
		What:       fmt.Sprintf("there are %d coaching sessions, the maximum of this server; close those that are done", limit),
		RetryAfter: maxRetryAfter,
	}
}

// sweepLoop closes idle sessions until the service is closed.
func (s *Service) sweepLoop() {
	pause := min(max(s.opts.Idle/4, minSweep), maxSweep)
	for s.opts.Sleep(s.alive, pause) == nil {
		s.sweep()
	}
}

// sweep closes idle sessions as DELETE does, also those that no server has in use.
func (s *Service) sweep() {
	err := s.closeMarked(s.alive, func(ctx context.Context) ([]Record, error) {
		idle, err := s.opts.Store.MarkIdle(ctx, s.opts.Idle)
		for _, rec := range idle {
			s.opts.Log.Info().Str("run_id", shorten(rec.RunID, maxLogID)).Dur("idle", s.opts.Idle).Msg("closing idle coaching session")
		}
		return idle, err
	})
	if err != nil && s.alive.Err() == nil {
		s.opts.Log.Warn().Err(err).Msg("closing idle coaching sessions failed")
	}
}
