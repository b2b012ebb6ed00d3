package console

import (
	"crypto/subtle"
	"net/http"
	"time"
)

// claim gives a task to a person, or renews the claim that they name. Of
// several who want one task, the first transaction wins.
func (d *desk) claim(seq uint64, person, secret string) (*task, error) {
	taken := false
	t, err := d.change(seq, func(_ *txn, t *task, now time.Time) error {
		held := t.holder(now)
		mine := t.Claim != nil && same(t.Claim.Secret, secret)
		switch {
		case held != nil && !mine:
			return fail(http.StatusConflict, "%s is working on it", held.Person)
		case !mine:
			t.Claim = &claim{Secret: d.newSecret()}
			taken = true
		}
		t.Claim.Person, t.Claim.Expires = person, now.Add(d.claimTime)
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	if _, open := d.open[seq]; open {
		d.lapses[seq] = t.Claim.Expires
	}
	d.mu.Unlock()
	if taken {
		d.log.Info().Str("task", taskID(seq)).Str("person", person).Msg("task claimed")
	}
	d.hub.changed()
	return t, nil
}

// release gives a task back.
func (d *desk) release(seq uint64, secret string) error {
	_, err := d.change(seq, func(_ *txn, t *task, now time.Time) error {
		if !holds(t, secret, now) {
			return errLapsed
		}
		t.Claim = nil
		return nil
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	delete(d.lapses, seq)
	d.mu.Unlock()
	d.log.Info().Str("task", taskID(seq)).Msg("task released")
	d.hub.changed()
	return nil
}

// saveDraft keeps what a person has so far, for them or for who comes next.
func (d *desk) saveDraft(seq uint64, secret string, draft []byte) error {
	first := false
	_, err := d.change(seq, func(x *txn, t *task, now time.Time) error {
		if !holds(t, secret, now) {
			return errLapsed
		}
		first, t.HasDraft = !t.HasDraft, true
		return x.putDraft(seq, draft)
	})
	if err == nil && first {
		d.hub.changed()
	}
	return err
}

// answer ends a task with a person's answer. The same answer sent again, since
// its sender did not learn that it had arrived, is taken as that answer.
func (d *desk) answer(seq uint64, secret string, a answer) (*task, error) {
	repeated := false
	t, err := d.changeAny(seq, func(x *txn, t *task, now time.Time) error {
		if t.Answer != nil && t.Claim != nil && same(t.Claim.Secret, secret) && t.Answer.equal(a) {
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
	d.over(seq)
	d.log.Info().Str("task", taskID(seq)).Str("person", t.Claim.Person).Str("outcome", a.Status).Msg("task answered")
	return t, nil
}

// change changes an open task in one transaction.
func (d *desk) change(seq uint64, f func(*txn, *task, time.Time) error) (*task, error) {
	return d.changeAny(seq, func(x *txn, t *task, now time.Time) error {
		if err := stillOpen(t); err != nil {
			return err
		}
		return f(x, t, now)
	})
}

// changeAny changes a task in one transaction. The time is read within it, so
// that transactions see times in their order.
func (d *desk) changeAny(seq uint64, f func(*txn, *task, time.Time) error) (t *task, err error) {
	err = d.store.update(func(x *txn) error {
		if t, err = x.task(seq); err != nil {
			return err
		}
		if t == nil {
			return errNoTask
		}
		if err := f(x, t, d.now()); err != nil {
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

// holds reports whether secret is that of the claim that holds now.
func holds(t *task, secret string, now time.Time) bool {
	c := t.holder(now)
	return c != nil && same(c.Secret, secret)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (a *answer) equal(b answer) bool {
	return a.Status == b.Status && a.Error == b.Error && a.Force == b.Force &&
		(a.Output == nil) == (b.Output == nil) && (a.Output == nil || *a.Output == *b.Output)
}

// draft is what was saved for a task, nil when nothing was.
func (d *desk) draft(seq uint64) (draft []byte, err error) {
	err = d.store.view(func(x *txn) error {
		draft = x.draft(seq)
		return nil
	})
	return draft, err
}

// announceLapses tells pages about claims that lapsed since the last time.
func (d *desk) announceLapses() {
	now := d.now()
	lapsed := false
	d.mu.Lock()
	for seq, expires := range d.lapses {
		if !now.Before(expires) {
			delete(d.lapses, seq)
			lapsed = true
		}
	}
	d.mu.Unlock()
	if lapsed {
		d.hub.changed()
	}
}

// prune removes what is older than it is kept: ended tasks, and open ones whose
// agent has been away for as long.
func (d *desk) prune() error {
	now := d.now()
	var old []uint64
	d.mu.Lock()
	for seq, p := range d.open {
		if p.waiting == 0 && now.Sub(p.since) >= d.keep {
			old = append(old, seq)
		}
	}
	d.mu.Unlock()
	err := d.store.view(func(x *txn) error {
		return x.each(bucketEnded, func(t *task) error {
			if now.Sub(t.EndedAt) >= d.keep {
				old = append(old, t.Seq)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	removed := 0
	for _, seq := range old {
		gone, err := d.remove(seq, now)
		if err != nil {
			return err
		}
		if gone {
			removed++
		}
	}
	if removed > 0 {
		d.log.Info().Int("tasks", removed).Msg("old tasks removed")
		d.hub.changed()
	}
	return nil
}

// remove deletes an old task unless somebody came back to it meanwhile.
func (d *desk) remove(seq uint64, now time.Time) (gone bool, err error) {
	err = d.store.update(func(x *txn) error {
		t, err := x.task(seq)
		if err != nil || t == nil || t.holder(now) != nil || t.ended() && now.Sub(t.EndedAt) < d.keep {
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if p := d.open[seq]; p != nil && p.waiting > 0 {
			return nil
		}
		delete(d.open, seq)
		gone = true
		return x.remove(t)
	})
	return gone, err
}
