package coaching

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentd/coaching/backend"
	"agentd/protocol"

	"golang.org/x/sync/errgroup"
)

// UnreachableError means that backends of a session failed a test call.
type UnreachableError struct {
	Why string // each of them with its reason, without keys
}

// Error names them with their reasons.
func (e *UnreachableError) Error() string {
	return "coaching backends cannot be used, so the session was not configured: " + e.Why
}

// ConfigureReachable is Configure after one short test call to each backend. A run that
// has a session already makes no calls. The errors are Configure's, an
// *UnreachableError, or ctx's. People and this server's own model are not asked.
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
		return s.metrics.full("sessions", TooManySessions(s.opts.MaxSessions))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.base, cancel)()

	sess, err := s.newSession(Record{Config: cfg})
	if err != nil {
		return err
	}
	defer sess.seal() // nobody is in it, so this releases it

	failures := make([]error, len(sess.models))
	var group errgroup.Group
	group.SetLimit(maxReachCalls)
	for i, m := range sess.models {
		group.Go(func() error {
			timeout := min(protocol.Seconds(cfg.Backends[i].Timeout), maxReachTime)
			if err := backend.Reach(ctx, m.Backend, timeout); err != nil {
				failures[i] = fmt.Errorf("%q: %w", m.Name(), err)
			}
			return nil
		})
	}
	_ = group.Wait() // no function of it fails
	switch {
	case s.base.Err() != nil:
		return ErrShutdown
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if err := errors.Join(failures...); err != nil {
		why := strings.ReplaceAll(err.Error(), "\n", "; ")
		return &UnreachableError{shorten(sess.redactor.Text(why), maxReason)}
	}
	return nil
}
