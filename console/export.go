package console

import (
	"errors"
	"fmt"
	"os"
	"time"

	"agentd/protocol"

	"github.com/rs/zerolog"
	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Corrected is a task that a person has corrected.
type Corrected struct {
	ID        string // its number
	Request   *protocol.SpecializedCoachingRequest
	Proposals []protocol.CoachingProposal
}

// EachCorrected calls f for the corrected tasks of a store, oldest first. The store is a PostgreSQL
// database at an URL or, if that is "", the file at a path, which no console may have open. Tasks
// without a coaching request of the protocol are left out.
func EachCorrected(path, url string, f func(*Corrected) error) (err error) {
	s, err := openToRead(path, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	// The whole list would hold all answers, and f may take its time.
	var numbers []uint64
	err = s.view(func(x txn) error {
		numbers = nil
		return x.each(true, func(t *task) error {
			if t.Answer != nil && t.Answer.Status == protocol.HumanCompleted && t.Answer.Output != nil {
				numbers = append(numbers, t.Seq)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	views := newViewCache(s)
	for _, n := range numbers {
		c, err := corrected(s, views, n)
		if err == nil && c != nil {
			err = f(c)
		}
		if err != nil {
			return fmt.Errorf("task %d: %w", n, err)
		}
	}
	return nil
}

// openToRead opens a store that exists.
func openToRead(path, url string) (store, error) {
	if url != "" {
		return openDatabase(url, zerolog.Nop())
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is in use by another process; stop the console, or name a copy of the file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := db.View(checkVersion); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), db.Close())
	}
	return &file{db: db, clock: time.Now}, nil
}

// corrected reads a task; nil if its request is none of the protocol's, or was removed meanwhile.
func corrected(s store, views *viewCache, n uint64) (*Corrected, error) {
	view, err := views.get(n)
	if errors.Is(err, errNoTask) {
		return nil, nil
	}
	if err != nil || view.repair == nil {
		return nil, err
	}
	var t *task
	if err := s.view(func(x txn) (err error) { t, err = x.task(n); return err }); err != nil || t == nil {
		return nil, err
	}
	verdict, err := view.repair.ReadHuman(*t.Answer.Output)
	if err != nil {
		return nil, fmt.Errorf("the answer is no correction: %w", err)
	}
	return &Corrected{ID: taskID(n), Request: view.decoded, Proposals: verdict.Proposals}, nil
}
