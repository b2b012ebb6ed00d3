package coaching

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// lease keeps a session from being removed from the store. The request that entered holds
// it, and so do its tasks for people, which may outlive the request.
type lease struct {
	service *Service
	id      uuid.UUID
	holders atomic.Int32
}

// lease enters the session in the store. The error is ErrUnknown if the session began to
// close after the lookup, perhaps before sess was made. Then nobody else would release it.
func (s *Service) lease(ctx context.Context, sess *session) (*lease, error) {
	l := &lease{service: s, id: uuid.New()}
	l.holders.Store(1)
	s.mu.Lock()
	s.leases[l.id] = struct{}{}
	s.mu.Unlock()
	ok, err := s.opts.Store.Enter(ctx, sess.record.ID, l.id)
	switch {
	case err != nil: // it may have entered
		l.drop()
	case !ok:
		s.dropLease(l.id)
		sess.seal()
		err = ErrUnknown
	}
	return l, err
}

// drop removes a holder. The last one ends the lease.
func (l *lease) drop() {
	if l.holders.Add(-1) > 0 {
		return
	}
	s := l.service
	s.dropLease(l.id)
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := s.opts.Store.Leave(ctx, l.id); err != nil {
		s.opts.Log.Warn().Err(err).Msg("lease of a coaching request not ended; it ends by itself")
	}
}

// dropLease stops renewing a lease.
func (s *Service) dropLease(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, id)
}

// watch renews the leases in a shared store, and seals sessions that other servers closed.
// It goes on while the service closes, until the last request has left.
func (s *Service) watch() {
	tick := time.NewTicker(s.shared.LeaseTime() / renewals)
	defer tick.Stop()
	down := false
	for {
		select {
		case <-tick.C:
		case <-s.base.Done():
			return
		}
		err := s.renew()
		if s.base.Err() != nil {
			return
		}
		if err != nil && !down {
			s.opts.Log.Error().Err(err).Msg("the store of coaching sessions cannot be reached; requests for coaching are answered 503 until it can")
		} else if err == nil && down {
			s.opts.Log.Info().Msg("the store of coaching sessions can be reached again")
		}
		down = err != nil
	}
}

// renew is one round of watch.
func (s *Service) renew() error {
	s.mu.Lock()
	leases, sessions := slices.Collect(maps.Keys(s.leases)), slices.Collect(maps.Keys(s.sessions))
	s.mu.Unlock()
	closed, err := s.shared.Renew(s.base, leases, sessions)
	for _, id := range closed {
		s.mu.Lock()
		sess := s.sessions[id]
		s.mu.Unlock()
		if sess != nil {
			sess.seal()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.change)
	s.change = make(chan struct{})
	return err
}

// changed is closed when a shared store may have changed: every fifth of a lease.
func (s *Service) changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change
}
