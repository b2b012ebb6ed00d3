package coaching

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"agentd/coaching/human"
	"agentd/coaching/repair"
	"agentd/protocol"

	"github.com/google/uuid"
)

// task is a request that a person has been asked. Callers join it by its id, so
// that an orchestrator whose connection broke does not ask twice.
type task struct {
	id     string
	posted time.Time
	done   chan struct{}
	answer *protocol.HumanCoachingResponse // once done
	err    error                           // once done
}

// askPerson posts the request to the session's people, or joins the task of the
// same request, and waits. final tells that what came is the last word, and not
// the lack of one.
func (j *job) askPerson(ctx context.Context) (r result, final bool, err error) {
	ctx, cancel := j.session.within(ctx)
	defer cancel()
	if j.task == nil {
		j.task = repair.NewCase(j.req)
	}
	ask := j.task.HumanRequest(j.id)
	t, joined, err := j.session.join(ask)
	if err != nil {
		return result{}, false, j.service.metrics.full("requests", err)
	}
	j.log.task(j.session.endpoint, ask, t.posted, joined)
	select {
	case <-t.done:
	case <-ctx.Done():
		// The hard end of the session ends the task, too, and is told as that.
		if j.session.hard.Err() == nil {
			r, err = interrupted(ctx)
			return r, true, err
		}
		<-t.done
	}
	j.session.take(t)
	j.attempts++
	r, final = j.readPerson(t)
	if j.person = t.answer != nil; final {
		j.provider = protocol.ProviderHuman
	}
	return r, final, nil
}

// requestID is an id for a request and its task for people: the same for the same
// content in the same session, and for no other.
func (j *job) requestID() string {
	content := sha256.Sum256(j.req.AppendJSON(nil)) // the ids of run and request are in it
	return uuid.NewSHA1(j.session.record.ID, content[:]).String()
}

// readPerson is the result of a task that is done; final as in askPerson.
func (j *job) readPerson(t *task) (r result, final bool) {
	if t.err != nil {
		j.log.taskFailed(t.err)
		if errors.Is(t.err, context.Canceled) {
			return abandoned("the coaching session was closed before a person had answered; the task was withdrawn"), true
		}
		return failed("no person gave an answer: %v", t.err), false
	}
	j.log.person(t.answer)
	switch t.answer.Status {
	case protocol.HumanSkipped:
		return abandoned("the person skipped the task: %s", t.answer.Error), true
	case protocol.HumanAborted:
		return failed("the person aborted the task: %s", t.answer.Error), false
	}
	v, err := j.told().ReadHuman(*t.answer.Output)
	switch {
	case err != nil:
		return abandoned("the person's answer is not a valid correction: %v", err), false
	case !v.Corrected:
		return abandoned("the person declined: %s", v.Why), true
	}
	return corrected(v), true
}

// join returns the task with this id, which is posted if there is none.
func (s *session) join(ask *protocol.HumanCoachingRequest) (t *task, joined bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tasks[ask.RequestID]; t != nil {
		return t, true, nil
	}
	if s.running >= s.bound {
		return nil, false, s.full()
	}
	// The task stays when its caller leaves: once as it is, once as it is sent.
	bytes := 2 * int64(len(ask.Payload)+len(ask.RenderedPrompt))
	if err := s.reserve(bytes); err != nil {
		return nil, false, err
	}
	t = &task{id: ask.RequestID, posted: s.now(), done: make(chan struct{})}
	s.tasks[t.id] = t
	s.running++
	go s.await(t, ask, bytes)
	return t, false, nil
}

// await waits for a person, who is told when the session closes first. It gives
// back the bytes of the task.
func (s *session) await(t *task, ask *protocol.HumanCoachingRequest, bytes int64) {
	t.answer, t.err = s.coach.Ask(s.open, ask)
	if t.err != nil && s.open.Err() != nil {
		t.err = context.Canceled
		s.withdraw(t.id)
	}
	s.unreserve(bytes)
	s.mu.Lock()
	s.running--
	if t.err != nil {
		delete(s.tasks, t.id) // the same request may ask again
	} else {
		s.keep(t.id)
	}
	close(t.done)
	s.releaseIfDone()
}

// withdraw takes a task back from the people.
func (s *session) withdraw(id string) {
	ctx, cancel := context.WithTimeout(s.hard, withdrawTimeout)
	defer cancel()
	if err := s.coach.Withdraw(ctx, id); err != nil {
		s.log.Warn().Err(err).Str("run_id", clip(s.runID, maxLogID)).Str("task", id).Msg("task not withdrawn from people")
	}
}

// keep keeps the answer of a task until a caller takes it: the one who asked may
// have lost its connection. The lock is held.
func (s *session) keep(id string) {
	s.kept = append(s.kept, id)
	if len(s.kept) > maxUndelivered {
		delete(s.tasks, s.kept[0])
		s.kept = s.kept[1:]
	}
}

// take counts a task's answer as delivered.
func (s *session) take(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tasks[t.id] != t {
		return
	}
	delete(s.tasks, t.id)
	for i, id := range s.kept {
		if id == t.id {
			s.kept = append(s.kept[:i], s.kept[i+1:]...)
			break
		}
	}
}

// postedAgain writes down that a task is posted again.
func (s *session) postedAgain(f human.Failure) {
	s.log.Warn().Err(f.Err).Str("run_id", clip(s.runID, maxLogID)).Int("try", f.Try).Dur("wait", f.Wait).Msg("people not reached; the task is posted again")
}
