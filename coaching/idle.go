package coaching

import "context"

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
