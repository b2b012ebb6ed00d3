package console

import "errors"

// refresh reads what other consoles on the same store did, and writes for them which agents wait
// here. change: they did something.
func (s *taskService) refresh(change bool) error {
	var waiting []uint64
	s.mu.Lock()
	for seq, p := range s.open {
		if p.waiting > 0 {
			waiting = append(waiting, seq)
		}
	}
	s.mu.Unlock()
	if !change && len(waiting) > 0 {
		if err := s.store.update(func(x txn) error { return x.present(waiting) }); err != nil {
			return err
		}
	}
	open := map[uint64]*task{}
	tasks, err := collect(s.store, false, all)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		open[t.Seq] = t
	}
	now := s.now()
	var missing []uint64
	s.mu.Lock()
	for seq := range s.open {
		if open[seq] == nil {
			missing = append(missing, seq)
		}
	}
	s.know(tasks, now)
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
