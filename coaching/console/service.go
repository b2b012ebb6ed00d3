package console

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"agentd/protocol"
)

// taskService has the rules of tasks: how they arrive, who may answer them, and which agents
// wait for answers. Its methods are safe for concurrent use. Where several goroutines want one
// task, the store's transactions decide who is first.
type taskService struct {
	store *store
	hub   *hub
	opts  Options

	// mu guards the fields below. It may be locked within a transaction, but no transaction
	// begins under it.
	mu   sync.Mutex
	open map[uint64]*presence // every open task
}

// presence counts the connections of agents that wait for the answer to an open task.
type presence struct {
	waiting int           // number of connections
	since   time.Time     // when the last one left, if there are none
	ended   chan struct{} // closed when the task is answered or withdrawn
}

// newTaskService resumes the tasks of a store. Their agents have not connected yet.
func newTaskService(stored *store, o Options) (*taskService, error) {
	s := &taskService{
		store: stored,
		hub:   newHub(),
		opts:  o,
		open:  map[uint64]*presence{},
	}
	tasks, err := collect(stored, false)
	for _, t := range tasks {
		s.open[t.Seq] = &presence{since: s.now(), ended: make(chan struct{})}
	}
	return s, err
}

// now returns the time in the precision of tasks.
func (s *taskService) now() time.Time { return s.opts.Now().UTC().Truncate(time.Millisecond) }

// submit stores an agent's task, or joins a known one, and waits for the answer until ctx ends.
func (s *taskService) submit(ctx context.Context, req *protocol.HumanCoachingRequest) (*protocol.HumanCoachingResponse, error) {
	seq, err := s.intake(req)
	if err != nil {
		return nil, err
	}
	p := s.arrive(seq)
	defer s.depart(seq, p)
	// An answer from before is in the store. A later one closes p.ended.
	for {
		t, err := s.find(seq)
		switch {
		case errors.Is(err, errNoTask):
			return nil, fail(http.StatusServiceUnavailable, "the task was removed just now; post the same request again")
		case err != nil:
			return nil, err
		case t.ended():
			return t.response(), nil
		}
		select {
		case <-p.ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// intake finds the request's task or stores a new one.
func (s *taskService) intake(req *protocol.HumanCoachingRequest) (seq uint64, err error) {
	body := req.AppendJSON(nil)
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	join := func(x txn) error {
		t, err := x.byRequest(req.RequestID)
		switch {
		case err != nil || t == nil:
			return err
		case t.Digest != digest:
			return fail(http.StatusConflict, "another request with this request_id is known; give each request its own id")
		}
		seq = t.Seq
		return nil
	}
	if err := s.store.view(join); err != nil || seq != 0 {
		return seq, err
	}
	t := newTaskView(req).describe()
	t.Digest = digest
	err = s.store.update(func(x txn) error {
		if err := join(x); err != nil || seq != 0 { // the same request may have arrived twice
			return err
		}
		if s.openTasks() >= maxOpen {
			return errFull
		}
		t.ReceivedAt = s.now()
		return x.create(t, body)
	})
	if err != nil || seq != 0 {
		return seq, err
	}
	s.opts.Log.Info().Str("task", taskID(t.Seq)).Str("kind", t.Kind).Str("payload_type", t.PayloadType).Msg("task arrived")
	return t.Seq, nil
}

// arrive counts an agent that waits.
func (s *taskService) arrive(seq uint64) *presence {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.open[seq]
	if p == nil {
		p = &presence{ended: make(chan struct{})}
		s.open[seq] = p
	}
	p.waiting++
	if p.waiting == 1 {
		s.hub.changed()
	}
	return p
}

// depart counts an agent that has its answer or has left.
func (s *taskService) depart(seq uint64, p *presence) {
	t, err := s.find(seq)
	ended := errors.Is(err, errNoTask) || err == nil && t.ended()
	s.mu.Lock()
	defer s.mu.Unlock()
	p.waiting--
	if p.waiting > 0 || s.open[seq] != p {
		return
	}
	if ended { // it joined an ended task
		delete(s.open, seq)
		return
	}
	p.since = s.now()
	s.opts.Log.Info().Str("task", taskID(seq)).Msg("agent left before the answer")
	s.hub.changed()
}

// over wakes the agents that wait for an ended task.
func (s *taskService) over(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.open[seq]; p != nil {
		close(p.ended)
		delete(s.open, seq)
	}
	s.hub.changed()
}

func (s *taskService) openTasks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *taskService) agentWaiting(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.open[seq]
	return p != nil && p.waiting > 0
}

// withdraw ends a task for its agent. It does nothing to an ended task.
func (s *taskService) withdraw(requestID string) error {
	var withdrawn *task
	err := s.store.update(func(x txn) error {
		t, err := x.byRequest(requestID)
		switch {
		case err != nil:
			return err
		case t == nil:
			return errNoTask
		case t.ended():
			return nil
		}
		t.EndedAt, t.HasDraft = s.now(), false
		withdrawn = t
		if err := x.putDraft(t.Seq, nil); err != nil {
			return err
		}
		return x.put(t)
	})
	if err != nil || withdrawn == nil {
		return err
	}
	s.over(withdrawn.Seq)
	s.opts.Log.Info().Str("task", taskID(withdrawn.Seq)).Msg("task withdrawn by its agent")
	return nil
}

// find returns the task with a number.
func (s *taskService) find(seq uint64) (t *task, err error) {
	err = s.store.view(func(x txn) error {
		t, err = x.task(seq)
		if err == nil && t == nil {
			err = errNoTask
		}
		return err
	})
	return t, err
}

// list returns the open tasks, oldest first, or the ended ones, newest first.
func (s *taskService) list(ended bool) ([]summary, error) {
	tasks, err := collect(s.store, ended)
	if ended {
		slices.SortStableFunc(tasks, func(a, b *task) int {
			return cmp.Or(b.EndedAt.Compare(a.EndedAt), cmp.Compare(b.Seq, a.Seq))
		})
		tasks = tasks[:min(len(tasks), maxListed)]
	}
	list := make([]summary, len(tasks))
	for i, t := range tasks {
		list[i] = s.show(t)
	}
	return list, err
}

// show summarizes a task as people see it now.
func (s *taskService) show(t *task) summary {
	return t.summary(s.now(), !t.ended() && s.agentWaiting(t.Seq))
}

// seqOf parses a task's id.
func seqOf(id string) (uint64, error) {
	seq, err := strconv.ParseUint(id, 10, 64)
	if err != nil || taskID(seq) != id {
		return 0, errNoTask
	}
	return seq, nil
}
