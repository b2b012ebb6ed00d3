package store

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"agentd/coaching/internal/quote"
)

const (
	// renewals is how often a lease is renewed within the lease time, in case some fail.
	renewals = 5
	// leaveTimeout bounds the call that ends a lease in the store; without it the lease expires.
	leaveTimeout = 5 * time.Second
)

// Leases are the leases that this server holds in a store. Make them with NewLeases.
type Leases struct {
	store  Store
	shared Shared // the store if other servers use it, too; else nil
	log    zerolog.Logger

	mu     sync.Mutex
	held   map[uuid.UUID]struct{}
	change chan struct{} // closed when the shared store may have changed
}

// NewLeases returns an empty Leases for a store.
func NewLeases(s Store, log zerolog.Logger) *Leases {
	shared, _ := s.(Shared)
	return &Leases{store: s, shared: shared, log: log, held: make(map[uuid.UUID]struct{}), change: make(chan struct{})}
}

// Lease prevents that a session is removed from the store. The request holds it, and so do its
// tasks for people, which may outlive the request.
type Lease struct {
	of      *Leases
	session Record
	id      uuid.UUID
	holders atomic.Int32
}

// Enter adds a lease to a session; Drop must be called. ok is false if the session is closing or gone.
func (l *Leases) Enter(ctx context.Context, session Record) (lease *Lease, ok bool, err error) {
	lease = &Lease{of: l, session: session, id: uuid.New()}
	lease.Hold()
	l.mu.Lock()
	l.held[lease.id] = struct{}{}
	l.mu.Unlock()
	ok, err = l.store.Enter(ctx, session.ID, lease.id)
	switch {
	case err != nil: // it may have entered
		lease.Drop()
	case !ok:
		l.forget(lease.id)
	}
	return lease, ok && err == nil, err
}

// Hold adds a holder; Drop must be called.
func (l *Lease) Hold() { l.holders.Add(1) }

// Drop removes a holder. The last one ends the lease.
func (l *Lease) Drop() {
	if l.holders.Add(-1) > 0 {
		return
	}
	l.of.forget(l.id)
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := l.of.store.Leave(ctx, l.id); err != nil {
		l.of.log.Warn().Err(err).Msg("lease of a coaching request not ended; it ends by itself")
	}
}

// forget removes a lease from those that are renewed.
func (l *Leases) forget(id uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, id)
}

// Once calls find for the answer to a request, unless another server has the answer or is
// finding it: then it waits, and returns the other's. If kept is nil, find was called and its
// answer counts. An answer that find does not return is not kept. The error is find's, an
// *Error, ctx's if that ended, or the cause of the end of abort.
func (l *Lease) Once(ctx, abort context.Context, request string, find func() (*Kept, error)) (kept *Kept, err error) {
	if l.of.shared == nil {
		_, err := find()
		return nil, err
	}
	for {
		changed := l.of.Changed()
		kept, claimed, err := l.of.shared.Claim(ctx, l.session.ID, request, l.id)
		if err != nil || kept != nil {
			return kept, err
		}
		if claimed {
			return l.settle(context.WithoutCancel(ctx), request, find)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-abort.Done():
			return nil, context.Cause(abort)
		}
	}
}

// settle calls find for the answer that this lease has claimed, and stores it for other servers.
func (l *Lease) settle(ctx context.Context, request string, find func() (*Kept, error)) (*Kept, error) {
	store, settled := l.of.shared, false
	defer func() {
		if !settled { // a panic must not leave others waiting
			_, _ = store.Settle(ctx, l.session.ID, request, l.id, nil)
		}
	}()
	found, err := find()
	first, failed := store.Settle(ctx, l.session.ID, request, l.id, found)
	settled = true
	switch {
	case failed != nil && found != nil:
		// A caller that sends the request again must get the same answer, so one that is
		// not kept is not given: the caller gets a 503.
		l.of.log.Warn().Err(failed).Str("run_id", quote.ID(l.session.RunID)).Msg("coaching answer not kept in the store; the caller gets 503 and may try again")
		return nil, &Error{failed}
	case found != nil && first != nil && string(first.Response) != string(found.Response):
		return first, nil // this server was away for so long that another one took over
	}
	return nil, err
}

// Watch renews the leases in the store, a shared one, until ctx ends. It calls closed for each of the
// running sessions that another server closes.
func (l *Leases) Watch(ctx context.Context, running func() []uuid.UUID, closed func(uuid.UUID)) {
	tick := time.NewTicker(l.shared.LeaseTime() / renewals)
	defer tick.Stop()
	down := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := l.renew(ctx, running(), closed)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !down {
			l.log.Error().Err(err).Msg("the store of coaching sessions cannot be reached; requests for coaching are answered 503 until it can")
		} else if err == nil && down {
			l.log.Info().Msg("the store of coaching sessions can be reached again")
		}
		down = err != nil
	}
}

// renew makes one round of Watch.
func (l *Leases) renew(ctx context.Context, running []uuid.UUID, closed func(uuid.UUID)) error {
	l.mu.Lock()
	held := slices.Collect(maps.Keys(l.held))
	l.mu.Unlock()
	ended, err := l.shared.Renew(ctx, held, running)
	for _, id := range ended {
		closed(id)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.change)
	l.change = make(chan struct{})
	return err
}

// Changed returns a channel that is closed when a shared store may have changed: after 1/renewals of the lease time.
func (l *Leases) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.change
}
