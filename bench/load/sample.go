package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentd/bench/result"
	"agentd/bench/target"
)

// sampleTimeout bounds one reading of the counters, so that a slow server does not
// delay the end of a run.
const sampleTimeout = 10 * time.Second

// sampler reads a server's counters during a run.
type sampler struct {
	target  target.Target
	every   time.Duration
	began   time.Time
	samples []result.Sample
	failed  int
	err     error
	quit    chan struct{}
	ended   chan struct{}
}

// start takes the first sample and goes on sampling. A server without counters has no
// samples.
func (s *sampler) start(ctx context.Context) error {
	s.began = time.Now()
	s.quit, s.ended = make(chan struct{}), make(chan struct{})
	s.sample(ctx)
	if errors.Is(s.err, target.ErrNoCounters) {
		s.failed = 0
		close(s.ended)
		return nil
	}
	if s.err != nil {
		return fmt.Errorf("the server's counters: %w", s.err)
	}
	go func() {
		defer close(s.ended)
		if s.every == 0 {
			return
		}
		ticker := time.NewTicker(s.every)
		defer ticker.Stop()
		for {
			select {
			case <-s.quit:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
				s.sample(ctx)
			}
		}
	}()
	return nil
}

// finish reads the counters once more, also after an interrupted run.
func (s *sampler) finish(ctx context.Context) {
	close(s.quit)
	<-s.ended
	if len(s.samples) > 0 {
		s.sample(context.WithoutCancel(ctx))
	}
}

func (s *sampler) sample(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	sent := time.Since(s.began)
	c, err := s.target.Counters(limited)
	switch {
	case err == nil:
		// The server read its counters between request and answer.
		s.samples = append(s.samples, result.Sample{At: ms((sent + time.Since(s.began)) / 2), Counters: c})
	case ctx.Err() == nil: // else the run ended
		s.failed++
		s.err = err
	}
}
