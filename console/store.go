package console

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

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
