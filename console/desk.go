package console

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"sync"
	"time"

	"agentd/protocol"

	"github.com/rs/zerolog"
)

// desk has the rules: how tasks come in, who may answer them, and which agents
// wait. Its methods may be called from any number of goroutines; where several
// want one task, the store's transactions decide who was first.
type desk struct {
	store     *store
	hub       *hub
	log       zerolog.Logger
	now       func() time.Time
	newSecret func() string
	claimTime time.Duration
	keep      time.Duration

	// mu guards what follows. It may be taken within a transaction, and no
	// transaction is begun under it.
	mu     sync.Mutex
	open   map[uint64]*presence // every open task
	lapses map[uint64]time.Time // ends of claims that hold
}

// presence says whether the agent of an open task waits for its answer.
type presence struct {
	waiting int           // its connections
	since   time.Time     // when the last one left, while there are none
	ended   chan struct{} // closed when the task is answered or withdrawn
}

// newDesk takes up the tasks of a store. Their agents are not there yet.
func newDesk(s *store, o Options) (*desk, error) {
	d := &desk{
		store:     s,
		hub:       newHub(),
		log:       o.Log,
		now:       func() time.Time { return o.Now().UTC().Truncate(time.Millisecond) },
		newSecret: o.NewSecret,
		claimTime: o.Claim,
		keep:      o.Keep,
		open:      map[uint64]*presence{},
		lapses:    map[uint64]time.Time{},
	}
	now := d.now()
	err := s.view(func(x *txn) error {
		return x.each(bucketOpen, func(t *task) error {
			d.open[t.Seq] = &presence{since: now, ended: make(chan struct{})}
			if c := t.holder(now); c != nil {
				d.lapses[t.Seq] = c.Expires
			}
			return nil
		})
	})
	return d, err
}

// submit takes an agent's task, or joins it when it is known, and waits for its
// answer until ctx ends.
func (d *desk) submit(ctx context.Context, req *protocol.HumanCoachingRequest) (*protocol.HumanCoachingResponse, error) {
	seq, err := d.intake(req)
	if err != nil {
		return nil, err
	}
	p := d.arrive(seq)
	defer d.depart(seq, p)
	// Looked at only now: an answer from before is in the store, and one that is
	// given from here on closes p.ended.
	for {
		t, err := d.find(seq)
		if err != nil {
			return nil, errRemoved
		}
		if t.ended() {
			return t.response(), nil
		}
		select {
		case <-p.ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// intake finds the request's task, or stores it as a new one.
func (d *desk) intake(req *protocol.HumanCoachingRequest) (seq uint64, err error) {
	body := req.AppendJSON(nil)
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	join := func(x *txn) error {
		t, err := x.byRequest(req.RequestID)
		switch {
		case err != nil || t == nil:
			return err
		case t.Digest != digest:
			return errOther
		}
		seq = t.Seq
		return nil
	}
	if err := d.store.view(join); err != nil || seq != 0 {
		return seq, err
	}
	t := newSheet(req).describe()
	t.Digest, t.ReceivedAt = digest, d.now()
	err = d.store.update(func(x *txn) error {
		if err := join(x); err != nil || seq != 0 { // it may have come twice at once
			return err
		}
		if d.openTasks() >= maxOpen {
			return errFull
		}
		return x.create(t, body)
	})
	if err != nil || seq != 0 {
		return seq, err
	}
	d.log.Info().Str("task", taskID(t.Seq)).Str("kind", t.Kind).Str("payload_type", t.PayloadType).Msg("task arrived")
	return t.Seq, nil
}

// arrive notes that an agent waits.
func (d *desk) arrive(seq uint64) *presence {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.open[seq]
	if p == nil {
		p = &presence{ended: make(chan struct{})}
		d.open[seq] = p
	}
	p.waiting++
	if p.waiting == 1 {
		d.hub.changed()
	}
	return p
}

// depart notes that an agent has its answer, or is gone without it.
func (d *desk) depart(seq uint64, p *presence) {
	ended := true
	if t, err := d.find(seq); err == nil {
		ended = t.ended()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p.waiting--
	if p.waiting > 0 || d.open[seq] != p {
		return
	}
	if ended { // it joined a task that was over
		delete(d.open, seq)
		return
	}
	p.since = d.now()
	d.log.Info().Str("task", taskID(seq)).Msg("agent left before the answer")
	d.hub.changed()
}

// over wakes the agents that wait for a task that has ended.
func (d *desk) over(seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.open[seq]; p != nil {
		close(p.ended)
		delete(d.open, seq)
	}
	delete(d.lapses, seq)
	d.hub.changed()
}

func (d *desk) openTasks() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open)
}

func (d *desk) agentWaiting(seq uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.open[seq]
	return p != nil && p.waiting > 0
}

// withdraw ends a task for its agent. Withdrawing an ended task changes
// nothing.
func (d *desk) withdraw(requestID string) error {
	var withdrawn *task
	err := d.store.update(func(x *txn) error {
		t, err := x.byRequest(requestID)
		switch {
		case err != nil:
			return err
		case t == nil:
			return errNoTask
		case t.ended():
			return nil
		}
		t.EndedAt, t.HasDraft = d.now(), false
		withdrawn = t
		if err := x.putDraft(t.Seq, nil); err != nil {
			return err
		}
		return x.put(t)
	})
	if err != nil || withdrawn == nil {
		return err
	}
	d.over(withdrawn.Seq)
	d.log.Info().Str("task", taskID(withdrawn.Seq)).Msg("task withdrawn by its agent")
	return nil
}

// find is the task of a number.
func (d *desk) find(seq uint64) (t *task, err error) {
	err = d.store.view(func(x *txn) error {
		t, err = x.task(seq)
		if err == nil && t == nil {
			err = errNoTask
		}
		return err
	})
	return t, err
}

// list shows the open tasks, oldest first, or the ended ones, newest first.
func (d *desk) list(ended bool) ([]summary, error) {
	bucket := bucketOpen
	if ended {
		bucket = bucketEnded
	}
	var tasks []*task
	err := d.store.view(func(x *txn) error {
		return x.each(bucket, func(t *task) error {
			tasks = append(tasks, t)
			return nil
		})
	})
	if ended {
		slices.SortStableFunc(tasks, func(a, b *task) int {
			return cmp.Or(b.EndedAt.Compare(a.EndedAt), cmp.Compare(b.Seq, a.Seq))
		})
		tasks = tasks[:min(len(tasks), maxListed)]
	}
	list := make([]summary, len(tasks))
	for i, t := range tasks {
		list[i] = d.show(t)
	}
	return list, err
}

// show is a task as people see it now.
func (d *desk) show(t *task) summary {
	return t.summary(d.now(), !t.ended() && d.agentWaiting(t.Seq))
}

// seqOf reads a task's number from its id.
func seqOf(id string) (uint64, error) {
	seq, err := strconv.ParseUint(id, 10, 64)
	if err != nil || taskID(seq) != id {
		return 0, errNoTask
	}
	return seq, nil
}
