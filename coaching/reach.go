package coaching

import (
	"context"

	"agentd/coaching/store"
	"agentd/protocol"
)

// ConfigureReachable is Configure after one short test call to each backend, except this
// server's model; people are not asked. If the run has a session already, it makes no
// calls. The error is one of Configure's, an *UnreachableError, or ctx's.
func (s *Service) ConfigureReachable(ctx context.Context, runID string, cfg *protocol.CoachingSessionConfig) error {
	if err := s.opts.Policy.CheckConfig(cfg); err != nil {
		return err
	}
	existing, err := s.opts.Store.Get(ctx, runID)
	if err != nil {
		return err
	}
	if existing == nil { // else Configure alone decides
		if err := s.reach(ctx, cfg); err != nil {
			return err
		}
	}
	return s.Configure(ctx, runID, cfg)
}

// reach calls each backend of a configuration once, with connections of its own.
func (s *Service) reach(ctx context.Context, cfg *protocol.CoachingSessionConfig) error {
	if !s.begin() { // Close waits for it
		return ErrShutdown
	}
	defer s.background.Done()
	// A bound, so that clients cannot open more connections here than by sessions.
	defer s.reaching.Add(-1)
	if n := s.reaching.Add(1); s.opts.MaxSessions > 0 && n > int64(s.opts.MaxSessions) {
		return s.metrics.full("sessions", store.TooManySessions(s.opts.MaxSessions))
	}
	sess, err := s.open(store.Record{Config: cfg}, func() {})
	if err != nil {
		return err
	}
	defer sess.Seal() // nobody is in it, so this releases it
	if sess.models == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.base, cancel)()
	err = sess.models.Reach(ctx)
	if s.base.Err() != nil {
		return ErrShutdown
	}
	return err
}
