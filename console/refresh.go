package console

import "errors"

// refresh learns what other consoles on the same store did, and tells them which agents wait
// here. change tells that there was something.
func (s *taskService) refresh(change bool) error {
	var waiting []uint64
	s.mu.Lock()
	for seq, p := range s.open {
		if p.waiting > 0 {
			waiting = append(waiting, seq)
		}
	}
	s.mu.Unlock()
	var err error
	if !change && len(waiting) > 0 {
		err = s.store.update(func(x txn) error { return x.present(waiting) })
	}
	if err != nil {
		return err
	}
	var open map[uint64]*task
	err = s.store.view(func(x txn) error {
		open = map[uint64]*task{}
		return x.each(false, func(t *task) error {
			open[t.Seq] = t
			return nil
		})
	})
	if err != nil {
		return err
	}
	now := s.now()
	var missing []uint64
	s.mu.Lock()
	for seq := range s.open {
		if open[seq] == nil {
			missing = append(missing, seq)
		}
	}
	for seq, t := range open {
		if s.open[seq] == nil {
			s.open[seq] = &presence{since: now, ended: make(chan struct{})}
		}
		if c := t.holder(now); c != nil {
			s.lapses[seq] = c.Expires
		}
	}
	s.mu.Unlock()
	for _, seq := range missing {
		// It may also have arrived after the snapshot.
		if t, err := s.find(seq); err == nil && !t.ended() {
			continue
		} else if err != nil && !errors.Is(err, errNoTask) {
			return err
		}
		s.over(seq)
	}
	if change {
		s.hub.changed()
	}
	return nil
}
