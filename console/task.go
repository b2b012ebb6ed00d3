package console

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"agentd/protocol"
)

// recordVersion is the version of a task's JSON in the store.
const recordVersion = 1

// task is the stored record of one task. Its request and draft are stored beside it.
type task struct {
	Version     int       `json:"version"`
	Seq         uint64    `json:"seq"` // its number; never reused
	RequestID   string    `json:"request_id"`
	Digest      string    `json:"digest"` // of the request, to recognize a repetition
	Kind        string    `json:"kind"`
	PayloadType string    `json:"payload_type"`
	RunID       string    `json:"run_id"`
	Stage       string    `json:"stage"`
	ReceivedAt  time.Time `json:"received_at"`
	Claim       *claim    `json:"claim,omitempty"` // the last one, also when it has lapsed or the task is done
	HasDraft    bool      `json:"has_draft,omitempty"`
	EndedAt     time.Time `json:"ended_at,omitzero"` // set when answered or withdrawn
	Answer      *answer   `json:"answer,omitempty"`  // nil when withdrawn
	AgentSeen   time.Time `json:"-"`                 // when an agent last waited at any of several consoles
}

// claim is a person's exclusive right to answer a task until it expires.
type claim struct {
	Person  string    `json:"person"`
	Secret  string    `json:"secret"` // only the person's page has it
	Expires time.Time `json:"expires"`
}

// answer is a person's answer.
type answer struct {
	Status string  `json:"status"` // one of protocol's Human statuses
	Output *string `json:"output"`
	Error  string  `json:"error"`
	Force  bool    `json:"force_save_example"`
}

func (t *task) ended() bool { return !t.EndedAt.IsZero() }

// holder returns the claim that is valid at a time, nil if there is none.
func (t *task) holder(now time.Time) *claim {
	if t.ended() || t.Claim == nil || !now.Before(t.Claim.Expires) {
		return nil
	}
	return t.Claim
}

// response is the agent's response for an ended task. For a withdrawn task it is an aborted
// one.
func (t *task) response() *protocol.HumanCoachingResponse {
	if t.Answer == nil {
		return &protocol.HumanCoachingResponse{
			RequestID: t.RequestID,
			Status:    protocol.HumanAborted,
			Error:     "the request was withdrawn before a person answered it",
		}
	}
	return &protocol.HumanCoachingResponse{
		RequestID:        t.RequestID,
		Status:           t.Answer.Status,
		Output:           t.Answer.Output,
		Error:            t.Answer.Error,
		ForceSaveExample: t.Answer.Force,
	}
}

// States of a task as people see them.
const (
	stateWaiting   = "waiting"
	stateClaimed   = "claimed"
	stateDone      = "done"
	stateWithdrawn = "withdrawn"
)

// summary is a task in people's lists.
type summary struct {
	ID           string     `json:"id"`
	Kind         string     `json:"kind"`
	PayloadType  string     `json:"payload_type"`
	RunID        string     `json:"run_id"`
	Stage        string     `json:"stage"`
	ReceivedAt   time.Time  `json:"received_at"`
	State        string     `json:"state"`
	ClaimedBy    *string    `json:"claimed_by"`
	ClaimExpires *time.Time `json:"claim_expires_at"`
	AgentWaiting bool       `json:"agent_waiting"`
	Outcome      *string    `json:"outcome"`
	HasDraft     bool       `json:"has_draft"`
}

func taskID(seq uint64) string { return strconv.FormatUint(seq, 10) }

// summary summarizes the task at a time. For an answered task it names the person.
func (t *task) summary(now time.Time, agentWaiting bool) summary {
	s := summary{
		ID:           taskID(t.Seq),
		Kind:         t.Kind,
		PayloadType:  t.PayloadType,
		RunID:        t.RunID,
		Stage:        t.Stage,
		ReceivedAt:   t.ReceivedAt,
		State:        stateWaiting,
		AgentWaiting: agentWaiting,
		HasDraft:     t.HasDraft,
	}
	switch c := t.holder(now); {
	case t.Answer != nil:
		s.State, s.Outcome = stateDone, &t.Answer.Status
		if t.Claim != nil {
			s.ClaimedBy = &t.Claim.Person
		}
	case t.ended():
		s.State = stateWithdrawn
	case c != nil:
		s.State, s.ClaimedBy, s.ClaimExpires = stateClaimed, &c.Person, &c.Expires
	}
	return s
}

// store holds all tasks: a file of this process, or a database that several consoles share.
// What a transaction has written is durable when it returns. A transaction that the database
// rolled back to resolve a conflict runs again, so f must be able to.
type store interface {
	// view runs f on a snapshot.
	view(f func(txn) error) error
	// update runs f in an exclusive transaction, which is rolled back if f returns an error.
	update(f func(txn) error) error
	// changes receives after another console has changed tasks; nil: no other one.
	changes() <-chan struct{}
	close() error
}

// txn is one transaction. Its results may be used after its end.
type txn interface {
	// now is the time by the store's clock.
	now() time.Time
	// create assigns a number to t and stores it with its request.
	create(t *task, request []byte) error
	// put stores a changed task.
	put(t *task) error
	// remove deletes a task with its request and draft.
	remove(t *task) error
	// task returns the task with a number, nil if there is none.
	task(seq uint64) (*task, error)
	// byRequest returns the task with an agent's request id, nil if there is none.
	byRequest(id string) (*task, error)
	// each calls f for the open or the ended tasks, oldest first.
	each(ended bool, f func(*task) error) error
	// part returns the task's request or draft, nil if there is none.
	part(of string, seq uint64) ([]byte, error)
	// putDraft stores a draft. nil removes it.
	putDraft(seq uint64, draft []byte) error
	// present records for other consoles that agents wait for these tasks.
	present(seqs []uint64) error
}

// Parts of a task.
const (
	partRequest = "request"
	partDraft   = "draft"
)

// collect returns what pick makes of the open or the ended tasks, oldest first. ok: it is wanted.
func collect[T any](s store, ended bool, pick func(*task) (v T, ok bool)) (list []T, err error) {
	err = s.view(func(x txn) error {
		list = nil
		return x.each(ended, func(t *task) error {
			if v, ok := pick(t); ok {
				list = append(list, v)
			}
			return nil
		})
	})
	return list, err
}

func readTask(raw []byte) (*task, error) {
	t := new(task)
	if err := json.Unmarshal(raw, t); err != nil {
		return nil, fmt.Errorf("a stored task is damaged: %w", err)
	}
	if t.Version != recordVersion {
		return nil, fmt.Errorf("stored task %d has version %d, this program knows %d; use the program that wrote it", t.Seq, t.Version, recordVersion)
	}
	return t, nil
}

// idKey makes a key of an id of any length.
func idKey(id string) []byte {
	digest := sha256.Sum256([]byte(id))
	return digest[:]
}
