package console

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"agentd/internal/postgres"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
)

//go:embed schema.sql
var schema string

// migrations never change once released. A new version appends one.
var migrations = []string{schema}

// database is a store that several consoles share.
type database struct{ db *postgres.DB }

// openDatabase connects to a database and prepares its table.
func openDatabase(url string, log zerolog.Logger) (store, error) {
	db, err := postgres.Open(context.Background(), url, postgres.Schema{Name: "console", Migrations: migrations}, log)
	if err != nil {
		return nil, err
	}
	return &database{db}, nil
}

func (s *database) close() error {
	s.db.Close()
	return nil
}

func (s *database) changes() <-chan struct{} { return s.db.Changes() }

// down is the answer while the database cannot be reached.
func down(err error) error {
	f := fail(http.StatusServiceUnavailable, "the store of tasks cannot be reached; the console's log has the reason; try again")
	f.err = err
	return f
}

func (s *database) view(f func(txn) error) error {
	return s.do(pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, f)
}

// update makes transactions of all consoles wait for each other, as in a file. There are
// only as many as people make.
func (s *database) update(f func(txn) error) error {
	return s.do(pgx.TxOptions{}, func(x txn) error {
		d := x.(*databaseTxn)
		if err := d.exec(`SELECT pg_advisory_xact_lock(hashtext('agentd tasks'))`); err != nil {
			return err
		}
		// A transaction that waited began in the past.
		if err := d.tx.QueryRow(d.ctx, `SELECT clock_timestamp()`).Scan(&d.at); err != nil {
			return down(err)
		}
		err := f(x)
		if err == nil && d.changed {
			if err = s.db.Notify(d.ctx, d.tx); err != nil {
				return down(err)
			}
		}
		return err
	})
}

// do runs f in a transaction. An error of f is returned as it is.
func (s *database) do(options pgx.TxOptions, f func(txn) error) error {
	var failed error
	err := s.db.Do(context.Background(), options, func(ctx context.Context, tx pgx.Tx) error {
		failed = f(&databaseTxn{ctx: ctx, tx: tx, at: time.Now()})
		return failed
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return down(err)
	}
	return nil
}

// databaseTxn is a txn of a database.
type databaseTxn struct {
	ctx     context.Context
	tx      pgx.Tx
	at      time.Time
	changed bool
}

func (x *databaseTxn) now() time.Time { return x.at.UTC().Truncate(time.Millisecond) }

func (x *databaseTxn) exec(sql string, args ...any) error {
	if _, err := x.tx.Exec(x.ctx, sql, args...); err != nil {
		return down(err)
	}
	return nil
}

func (x *databaseTxn) create(t *task, request []byte) error {
	var seq int64
	err := x.tx.QueryRow(x.ctx, `INSERT INTO agentd_tasks (request_id, ended, record, request) VALUES ($1, false, '', $2) RETURNING seq`,
		idKey(t.RequestID), request).Scan(&seq)
	if err != nil {
		return down(err)
	}
	t.Version, t.Seq = recordVersion, uint64(seq)
	return x.put(t)
}

// put notifies other consoles, unless nothing has changed but the draft.
func (x *databaseTxn) put(t *task) error {
	raw, err := json.Marshal(t)
	if err != nil {
		return err
	}
	tag, err := x.tx.Exec(x.ctx, `UPDATE agentd_tasks SET ended = $2, record = $3 WHERE seq = $1 AND record <> $3`, int64(t.Seq), t.ended(), string(raw))
	if err != nil {
		return down(err)
	}
	x.changed = x.changed || tag.RowsAffected() > 0
	return nil
}

func (x *databaseTxn) remove(t *task) error {
	x.changed = true
	return x.exec(`DELETE FROM agentd_tasks WHERE seq = $1`, int64(t.Seq))
}

// tasks reads tasks in their order.
func (x *databaseTxn) tasks(where string, args ...any) ([]*task, error) {
	rows, err := x.tx.Query(x.ctx, `SELECT record, agent_seen FROM agentd_tasks WHERE `+where+` ORDER BY seq`, args...)
	if err != nil {
		return nil, down(err)
	}
	var damaged error
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (t *task, err error) {
		var record []byte
		var seen time.Time
		if err := r.Scan(&record, &seen); err != nil {
			return nil, err
		}
		if t, damaged = readTask(record); damaged == nil {
			t.AgentSeen = seen
		}
		return t, damaged
	})
	if err != nil && damaged == nil {
		return nil, down(err)
	}
	return list, damaged
}

// one is the first task of a list, nil if there is none.
func one(list []*task, err error) (*task, error) {
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

func (x *databaseTxn) task(seq uint64) (*task, error) {
	return one(x.tasks(`seq = $1`, int64(seq)))
}

func (x *databaseTxn) byRequest(id string) (*task, error) {
	return one(x.tasks(`request_id = $1`, idKey(id)))
}

func (x *databaseTxn) each(ended bool, f func(*task) error) error {
	list, err := x.tasks(`ended = $1`, ended)
	if err != nil {
		return err
	}
	for _, t := range list {
		if err := f(t); err != nil {
			return err
		}
	}
	return nil
}

func (x *databaseTxn) part(of string, seq uint64) (value []byte, err error) {
	err = x.tx.QueryRow(x.ctx, `SELECT `+of+` FROM agentd_tasks WHERE seq = $1`, int64(seq)).Scan(&value)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, down(err)
	}
	return value, nil
}

func (x *databaseTxn) putDraft(seq uint64, draft []byte) error {
	return x.exec(`UPDATE agentd_tasks SET draft = $2 WHERE seq = $1`, int64(seq), draft)
}

func (x *databaseTxn) present(seqs []uint64) error {
	list := make([]int64, len(seqs))
	for i, seq := range seqs {
		list[i] = int64(seq)
	}
	return x.exec(`UPDATE agentd_tasks SET agent_seen = now() WHERE seq = ANY($1)`, list)
}
