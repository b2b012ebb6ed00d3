package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentd/bench/result"
	"agentd/bench/target"
)

// sampleTimeout bounds one reading of the counters, so that a server that is
// slow to tell them does not hold up the end of a run.
const sampleTimeout = 10 * time.Second

// sampler reads a server's counters while it is under load.
type sampler struct {
	target target.Target
	every  time.Duration
	began  time.Time

	before, after *target.Counters
	samples       []result.Sample
	failed        int
	err           error

	last  target.Counters // of the newest sample
	quit  chan struct{}
	ended chan struct{}
}

// begin reads the counters before anything is sent.
func (s *sampler) begin(ctx context.Context) error {
	c, err := s.read(ctx)
	if errors.Is(err, target.ErrNoCounters) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the target's counters: %w", err)
	}
	s.before, s.last = &c, c
	return nil
}

func (s *sampler) read(ctx context.Context) (target.Counters, error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	return s.target.Counters(ctx)
}

// start samples from now on, at the beginning first.
func (s *sampler) start(ctx context.Context, began time.Time) {
	s.began = began
	s.quit, s.ended = make(chan struct{}), make(chan struct{})
	if s.before == nil {
		close(s.ended)
		return
	}
	s.take(*s.before, 0)
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
}

// finish ends sampling and reads the counters once more, also after a run that
// was interrupted.
func (s *sampler) finish(ctx context.Context) {
	close(s.quit)
	<-s.ended
	if s.before == nil {
		return
	}
	if s.sample(context.WithoutCancel(ctx)) {
		last := s.last
		s.after = &last
	}
}

func (s *sampler) sample(ctx context.Context) bool {
	c, err := s.read(ctx)
	if err != nil {
		if ctx.Err() == nil { // else the run ended, which is no fault of the server
			s.failed++
			s.err = err
		}
		return false
	}
	s.take(c, time.Since(s.began))
	return true
}

// take makes a sample of counters and those of the sample before.
func (s *sampler) take(c target.Counters, at time.Duration) {
	s.samples = append(s.samples, result.Sample{
		At: ms(at), Running: c.Running, Waiting: c.Waiting, CellsUsed: c.CellsUsed,
		Width:     ratio(grown(s.last.Rows, c.Rows), grown(s.last.Steps, c.Steps)),
		CacheHits: share(grown(s.last.Cached, c.Cached), grown(s.last.Prefilled, c.Prefilled)),
	})
	s.last = c
}

// grown is how much a counter has grown; -1 when it is not known, or the server
// was started anew.
func grown(from, to float64) float64 {
	if from < 0 || to < from {
		return -1
	}
	return to - from
}

// share is that of a in a and the rest; -1 as with ratio.
func share(a, rest float64) float64 {
	if rest < 0 {
		return -1
	}
	return ratio(a, a+rest)
}

// ratio is a for each b; -1 when one of them is not known, or nothing has
// happened.
func ratio(a, b float64) float64 {
	if a < 0 || b <= 0 {
		return -1
	}
	return a / b
}
