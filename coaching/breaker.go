package coaching

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentd/coaching/egress"
	"agentd/coaching/human"

	"github.com/google/uuid"
)

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
