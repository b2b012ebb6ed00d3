package coach

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"agentd/coaching/egress"
	"agentd/coaching/human"
)

// ProbeInterval is the time between two probes of an unreachable human endpoint, probeTimeout the timeout of one.
const (
	ProbeInterval = 10 * time.Second
	probeTimeout  = 5 * time.Second
)

// Breaker is the circuit breaker of the operator's people. While their endpoint is unreachable,
// sessions skip it, so that requests do not wait for several tries. It probes the endpoint
// in the background until that answers. A nil Breaker never trips.
type Breaker struct {
	Endpoint string
	Client   func() *egress.Client         // makes the client of the probes
	Alive    context.Context               // ends when the service is closed
	Go       func(f func()) (started bool) // runs f in the background, unless the service was closed
	Sleep    func(ctx context.Context, d time.Duration) error
	Now      func() time.Time
	Log      zerolog.Logger

	mu     sync.Mutex
	reason error     // why the endpoint is unreachable; nil: it is not
	since  time.Time // since when
}

// Check returns the reason why people cannot be asked now, nil if they can.
func (b *Breaker) Check() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason == nil {
		return nil
	}
	return fmt.Errorf("%w (since %s; agentd looks for it every %s)", b.reason, b.since.UTC().Format(time.RFC3339), ProbeInterval)
}

// Observe records the result of a request to the endpoint.
func (b *Breaker) Observe(err error) {
	var failure *human.Error
	if b == nil || !errors.As(err, &failure) || failure.Kind != human.Unreachable {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason != nil || !b.Go(b.probe) {
		return
	}
	b.reason, b.since = err, b.Now()
	b.Log.Warn().Err(err).Str("endpoint", egress.SafeURL(b.Endpoint)).Dur("retry_every", ProbeInterval).
		Msg("human endpoint unreachable; coaching continues without people")
}

// probe probes the endpoint until it answers, or the service is closed.
func (b *Breaker) probe() {
	client := b.Client()
	defer client.Close()
	endpoint := human.New(b.Endpoint, client, human.Options{})
	for b.Sleep(b.Alive, ProbeInterval) == nil {
		ctx, cancel := context.WithTimeout(b.Alive, probeTimeout)
		err := endpoint.Reach(ctx, uuid.NewString())
		cancel()
		if err != nil {
			continue
		}
		b.mu.Lock()
		b.reason = nil
		down := b.Now().Sub(b.since)
		b.mu.Unlock()
		b.Log.Info().Str("endpoint", egress.SafeURL(b.Endpoint)).Dur("unreachable_for", down).Msg("human endpoint reachable again")
		return
	}
}
