package console

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"syscall"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// schemaVersion is the version of the file's layout. Files of other versions are refused.
const schemaVersion = 1

// The buckets of the file. Tasks have their number as key, so they are in order of arrival.
var (
	bucketMeta     = []byte("meta")     // "schema": the layout's version
	bucketOpen     = []byte("open")     // number -> task
	bucketEnded    = []byte("ended")    // number -> task
	bucketRequests = []byte("requests") // number -> the agent's request
	bucketDrafts   = []byte("drafts")   // number -> a person's draft
	bucketIDs      = []byte("ids")      // SHA-256 of the request id -> number

	keySchema = []byte("schema")
)

// mapSize is how many bytes of the file are mapped at once. To map more, a write waits for all reads.
const mapSize = 1 << 20

// store holds all tasks in a bbolt file. What a transaction has written is durable when it returns.
type store struct{ db *bolt.DB }

// openStore opens or creates the file at path. To read, it must exist, and no process may have it open.
func openStore(path string, toRead bool) (*store, error) {
	use, fix := (*bolt.DB).Update, "stop it or choose another directory"
	check := prepare
	if toRead {
		use, check, fix = (*bolt.DB).View, checkVersion, "stop the console, or name a copy of the file"
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, ReadOnly: toRead, InitialMmapSize: mapSize})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is in use by another process; %s", path, fix)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := use(db, check); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), db.Close())
	}
	return &store{db}, nil
}

// prepare creates the buckets of a new file and checks the version of an existing one.
func prepare(tx *bolt.Tx) error {
	if tx.Bucket(bucketMeta) != nil {
		if err := checkVersion(tx); err != nil {
			return err
		}
	}
	for _, name := range [][]byte{bucketMeta, bucketOpen, bucketEnded, bucketRequests, bucketDrafts, bucketIDs} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketMeta).Put(keySchema, []byte(strconv.Itoa(schemaVersion)))
}

// checkVersion refuses files of another layout.
func checkVersion(tx *bolt.Tx) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return errors.New("the file holds no tasks of a console")
	}
	version, err := strconv.Atoi(string(meta.Get(keySchema)))
	if err != nil || version != schemaVersion {
		return fmt.Errorf("the file has layout version %q, this program knows %d; use the program that wrote it, or another directory",
			meta.Get(keySchema), schemaVersion)
	}
	return nil
}

func (s *store) close() error { return s.db.Close() }

// view runs f on a snapshot.
func (s *store) view(f func(txn) error) error {
	return s.db.View(func(tx *bolt.Tx) error { return f(txn{tx}) })
}

// update runs f in an exclusive transaction, which is rolled back if f returns an error.
func (s *store) update(f func(txn) error) error {
	var failed error
	err := s.db.Update(func(tx *bolt.Tx) error {
		failed = f(txn{tx})
		return failed
	})
	if failed != nil || err == nil {
		return failed
	}
	return unwritten(err)
}

// unwritten is the answer when the file cannot be written. It keeps what it had.
func unwritten(err error) error {
	f := fail(http.StatusServiceUnavailable, "the file of tasks cannot be written, so nothing was changed; the console's log has the reason; try again")
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		f = fail(http.StatusServiceUnavailable, "the disk of the console is full, so nothing was changed; free space on it, then try again")
	}
	f.err = err
	return f
}

// txn is one transaction. Its results may be used after its end.
type txn struct{ tx *bolt.Tx }

// create assigns a number to t and stores it with its request.
func (x txn) create(t *task, request []byte) error {
	seq, err := x.tx.Bucket(bucketIDs).NextSequence()
	if err != nil {
		return err
	}
	t.Version, t.Seq = recordVersion, seq
	if err := x.tx.Bucket(bucketIDs).Put(idKey(t.RequestID), seqKey(seq)); err != nil {
		return err
	}
	if err := x.tx.Bucket(bucketRequests).Put(seqKey(seq), request); err != nil {
		return err
	}
	return x.put(t)
}

// put stores a changed task in the bucket of its state.
func (x txn) put(t *task) error {
	raw, err := json.Marshal(t)
	if err != nil {
		return err
	}
	to, from := bucketOpen, bucketEnded
	if t.ended() {
		to, from = from, to
	}
	if err := x.tx.Bucket(from).Delete(seqKey(t.Seq)); err != nil {
		return err
	}
	return x.tx.Bucket(to).Put(seqKey(t.Seq), raw)
}

// remove deletes a task with its request and draft.
func (x txn) remove(t *task) error {
	key := seqKey(t.Seq)
	for _, bucket := range [][]byte{bucketOpen, bucketEnded, bucketRequests, bucketDrafts} {
		if err := x.tx.Bucket(bucket).Delete(key); err != nil {
			return err
		}
	}
	return x.tx.Bucket(bucketIDs).Delete(idKey(t.RequestID))
}

// task returns the task with a number, nil if there is none.
func (x txn) task(seq uint64) (*task, error) {
	for _, bucket := range [][]byte{bucketOpen, bucketEnded} {
		if raw := x.tx.Bucket(bucket).Get(seqKey(seq)); raw != nil {
			return readTask(raw)
		}
	}
	return nil, nil
}

// byRequest returns the task with an agent's request id, nil if there is none.
func (x txn) byRequest(id string) (*task, error) {
	key := x.tx.Bucket(bucketIDs).Get(idKey(id))
	if key == nil {
		return nil, nil
	}
	return x.task(binary.BigEndian.Uint64(key))
}

// each calls f for the open or the ended tasks, oldest first.
func (x txn) each(ended bool, f func(*task) error) error {
	bucket := bucketOpen
	if ended {
		bucket = bucketEnded
	}
	return x.tx.Bucket(bucket).ForEach(func(_, raw []byte) error {
		t, err := readTask(raw)
		if err != nil {
			return err
		}
		return f(t)
	})
}

// part returns a task's request or draft, which are buckets, nil if there is none.
func (x txn) part(bucket []byte, seq uint64) []byte {
	return bytes.Clone(x.tx.Bucket(bucket).Get(seqKey(seq)))
}

// part is a txn's part on a snapshot.
func (s *store) part(bucket []byte, seq uint64) (part []byte, err error) {
	err = s.view(func(x txn) error {
		part = x.part(bucket, seq)
		return nil
	})
	return part, err
}

// putDraft stores a draft. nil removes it.
func (x txn) putDraft(seq uint64, draft []byte) error {
	if draft == nil {
		return x.tx.Bucket(bucketDrafts).Delete(seqKey(seq))
	}
	return x.tx.Bucket(bucketDrafts).Put(seqKey(seq), draft)
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// collect returns the open or the ended tasks, oldest first.
func collect(s *store, ended bool) (list []*task, err error) {
	err = s.view(func(x txn) error {
		return x.each(ended, func(t *task) error {
			list = append(list, t)
			return nil
		})
	})
	return list, err
}
