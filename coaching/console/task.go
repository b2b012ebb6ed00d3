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
	Claim       *claim    `json:"claim,omitempty"` // the last one, even if it has lapsed or the task is done
	HasDraft    bool      `json:"has_draft,omitempty"`
	EndedAt     time.Time `json:"ended_at,omitzero"` // set when answered or withdrawn
	Answer      *answer   `json:"answer,omitempty"`  // nil when withdrawn
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

// response returns the response to the agent for an ended task; for a withdrawn task it is aborted.
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
	EndedAt      time.Time  `json:"ended_at,omitzero"`
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
		EndedAt:      t.EndedAt,
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

// idKey returns the key of an id of any length.
func idKey(id string) []byte {
	digest := sha256.Sum256([]byte(id))
	return digest[:]
}
