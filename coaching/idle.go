package coaching

import "errors"

// sweepLoop closes idle sessions until the service is closed.
func (s *Service) sweepLoop() {
	pause := min(max(s.opts.Idle/4, minSweep), maxSweep)
	for s.opts.Sleep(s.alive, pause) == nil {
		s.sweep()
	}
}

// sweep closes idle sessions as DELETE does.
func (s *Service) sweep() {
	s.mu.Lock()
	sessions := make([]*session, 0, len(s.sessions))
	for _, sess := range s.sessions {
		sessions = append(sessions, sess)
	}
	s.mu.Unlock()
	for _, sess := range sessions {
		since, ok := sess.idleSince()
		if !ok || s.opts.Now().Sub(since) < s.opts.Idle {
			continue
		}
		s.opts.Log.Info().Str("run_id", clip(sess.runID, maxLogID)).Dur("idle", s.opts.Idle).Msg("closing idle coaching session")
		err := s.closeSession(s.alive, sess.runID, sess.record.ID)
		if err != nil && !errors.Is(err, ErrUnknown) && s.alive.Err() == nil {
			s.opts.Log.Warn().Err(err).Str("run_id", clip(sess.runID, maxLogID)).Msg("closing idle coaching session failed")
		}
	}
}
