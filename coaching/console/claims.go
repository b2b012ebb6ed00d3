package console

import (
	"crypto/subtle"
	"net/http"
	"reflect"
	"time"
)

// claim gives a task to a person, or renews their claim. Of several people the first
// transaction wins.
func (s *taskService) claim(seq uint64, person, secret string) (*task, error) {
	taken := false
	t, err := s.change(seq, func(_ txn, t *task, now time.Time) error {
		held := t.holder(now)
		mine := t.Claim != nil && same(t.Claim.Secret, secret)
		switch {
		case held != nil && !mine:
			return fail(http.StatusConflict, "%s is working on it", held.Person)
		case !mine:
			t.Claim = &claim{Secret: s.opts.NewSecret()}
			taken = true
		}
		t.Claim.Person, t.Claim.Expires = person, now.Add(s.opts.Claim)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if taken {
		s.opts.Log.Info().Str("task", taskID(seq)).Str("person", person).Msg("task claimed")
	}
	s.hub.changed()
	return t, nil
}

// release ends a claim.
func (s *taskService) release(seq uint64, secret string) error {
	_, err := s.change(seq, func(_ txn, t *task, now time.Time) error {
		if !holds(t, secret, now) {
			return errLapsed
		}
		t.Claim = nil
		return nil
	})
	if err != nil {
		return err
	}
	s.opts.Log.Info().Str("task", taskID(seq)).Msg("task released")
	s.hub.changed()
	return nil
}

// saveDraft stores an unfinished answer for this person or the next one.
func (s *taskService) saveDraft(seq uint64, secret string, draft []byte) error {
	first := false
	_, err := s.change(seq, func(x txn, t *task, now time.Time) error {
		if !holds(t, secret, now) {
			return errLapsed
		}
		first, t.HasDraft = !t.HasDraft, true
		return x.putDraft(seq, draft)
	})
	if err == nil && first {
		s.hub.changed()
	}
	return err
}

// answer ends a task with a person's answer. A repetition of the same answer succeeds too: its
// sender may have missed the first response.
func (s *taskService) answer(seq uint64, secret string, a answer) (*task, error) {
	repeated := false
	t, err := s.changeAny(seq, func(x txn, t *task, now time.Time) error {
		if t.Answer != nil && t.Claim != nil && same(t.Claim.Secret, secret) && reflect.DeepEqual(t.Answer, &a) {
			repeated = true
			return nil
		}
		if err := stillOpen(t); err != nil {
			return err
		}
		if !holds(t, secret, now) {
			return errLapsed
		}
		t.Answer, t.EndedAt, t.HasDraft = &a, now, false
		return x.putDraft(seq, nil)
	})
	if err != nil || repeated {
		return t, err
	}
	s.over(seq)
	s.opts.Log.Info().Str("task", taskID(seq)).Str("person", t.Claim.Person).Str("outcome", a.Status).Msg("task answered")
	return t, nil
}

// change changes an open task in one transaction.
func (s *taskService) change(seq uint64, f func(txn, *task, time.Time) error) (*task, error) {
	return s.changeAny(seq, func(x txn, t *task, now time.Time) error {
		if err := stillOpen(t); err != nil {
			return err
		}
		return f(x, t, now)
	})
}

// changeAny changes a task in one transaction. It reads the clock within the transaction, so
// that later transactions never see earlier times.
func (s *taskService) changeAny(seq uint64, f func(txn, *task, time.Time) error) (t *task, err error) {
	err = s.store.update(func(x txn) error {
		if t, err = x.task(seq); err != nil {
			return err
		}
		if t == nil {
			return errNoTask
		}
		if err := f(x, t, s.now()); err != nil {
			return err
		}
		return x.put(t)
	})
	return t, err
}

func stillOpen(t *task) error {
	switch {
	case t.Answer != nil:
		return errDone
	case t.ended():
		return errWithdrawn
	}
	return nil
}

// holds reports whether secret belongs to the current claim.
func holds(t *task, secret string, now time.Time) bool {
	c := t.holder(now)
	return c != nil && same(c.Secret, secret)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// prune removes ended tasks, and open ones whose agent is away, after the retention time.
func (s *taskService) prune() error {
	now := s.now()
	var old []uint64
	s.mu.Lock()
	for seq, p := range s.open {
		if p.waiting == 0 && now.Sub(p.since) >= s.opts.Keep {
			old = append(old, seq)
		}
	}
	s.mu.Unlock()
	ended, err := collect(s.store, true)
	if err != nil {
		return err
	}
	for _, t := range ended {
		if now.Sub(t.EndedAt) >= s.opts.Keep {
			old = append(old, t.Seq)
		}
	}
	removed := 0
	for _, seq := range old {
		gone, err := s.remove(seq)
		if err != nil {
			return err
		}
		if gone {
			removed++
		}
	}
	if removed > 0 {
		s.opts.Log.Info().Int("tasks", removed).Msg("old tasks removed")
		s.hub.changed()
	}
	return nil
}

// remove deletes an old task unless somebody has used it meanwhile.
func (s *taskService) remove(seq uint64) (gone bool, err error) {
	err = s.store.update(func(x txn) error {
		t, err := x.task(seq)
		now := s.now()
		if err != nil || t == nil || t.holder(now) != nil || t.ended() && now.Sub(t.EndedAt) < s.opts.Keep {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if p := s.open[seq]; p != nil && p.waiting > 0 {
			return nil
		}
		delete(s.open, seq)
		gone = true
		return x.remove(t)
	})
	return gone, err
}
