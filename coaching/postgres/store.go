// Package postgres is a store of coaching sessions that several servers share.
//
// Each file uses only files after it: store.go, database.go, keys.go. The type Store is the
// exception.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"agentd/coaching/store"
	"agentd/protocol"
)

// DefaultLease is how long the lease of a server that crashed holds up a DELETE.
const DefaultLease = 10 * time.Second

// Options configure a Store.
type Options struct {
	URL   string
	Keys  *Keys
	Lease time.Duration // 0: DefaultLease
	Log   zerolog.Logger
}

// Store is a [store.Shared] in a database. Close it after the services that use it.
type Store struct {
	pool  *pgxpool.Pool
	log   zerolog.Logger
	keys  *Keys
	limit time.Duration // of one transaction
	lease time.Duration
	grace time.Duration // after the database's start, in which no lease ends
}

var _ store.Shared = (*Store)(nil)

// Open connects to the database and prepares its tables.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	pool, err := connect(ctx, o.URL)
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool, log: o.Log, keys: o.Keys, limit: max(usualLimit, pool.Config().ConnConfig.ConnectTimeout), lease: o.Lease, grace: o.Lease}
	if err := s.migrate(ctx); err != nil {
		pool.Close()
		if strings.Contains(err.Error(), "statement pooling") {
			err = fmt.Errorf("%w; transactions are needed, so set the pooler's pool_mode to transaction or session", err)
		}
		return nil, err
	}
	return s, nil
}

// Close ends the connections.
func (s *Store) Close() { s.pool.Close() }

// LeaseTime implements [store.Shared].
func (s *Store) LeaseTime() time.Duration { return s.lease }

// live is a condition on agentd_leases; its parameter $1 is the grace. Nobody could
// renew while the database was down, so all leases hold for a while after its start.
const live = `(expires > now() OR pg_postmaster_start_time() + $1::interval > now())`

// columns of agentd_sessions that make a record.
const columns = `id, run_id, closing, key_id, config,
	ARRAY(SELECT request FROM agentd_answers WHERE session = id AND response IS NULL)`

// records decodes rows of columns. A session whose key is lost can be closed, so it has no Config then.
func (s *Store) records(rows pgx.Rows, _ error) ([]store.Record, error) { // rows has the error
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (rec store.Record, err error) {
		var runID, sealed []byte
		var closing bool
		var key string
		if err := row.Scan(&rec.ID, &runID, &closing, &key, &sealed, &rec.Unanswered); err != nil {
			return rec, err
		}
		rec.RunID, rec.State = string(runID), store.Configured
		if closing {
			rec.State = store.Closing
		}
		config, err := s.keys.open(key, sealed, rec.ID[:])
		if err == nil {
			rec.Config, err = protocol.DecodeCoachingSessionConfig(config)
		} else if closing {
			err = nil
		}
		return rec, err
	})
}

// first is the only record, nil if there is none.
func first(list []store.Record, err error) (*store.Record, error) {
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// Create implements [store.Store].
func (s *Store) Create(ctx context.Context, rec store.Record, limit int) (existing *store.Record, err error) {
	key, sealed := s.keys.seal(rec.Config.AppendJSON(nil), rec.ID[:])
	err = s.do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// Creations wait for each other, since each counts the others. Nothing else does.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('agentd sessions'))`); err != nil {
			return err
		}
		existing, err = first(s.records(tx.Query(ctx, `UPDATE agentd_sessions SET last_used = now() WHERE run_id = $1 RETURNING `+columns, []byte(rec.RunID))))
		if err != nil || existing != nil {
			return err
		}
		var n int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM agentd_sessions`).Scan(&n); err != nil {
			return err
		}
		if limit > 0 && n >= limit {
			return store.TooManySessions(limit)
		}
		_, err := tx.Exec(ctx, `INSERT INTO agentd_sessions (id, run_id, key_id, config) VALUES ($1, $2, $3, $4)`, rec.ID, []byte(rec.RunID), key, sealed)
		return err
	})
	return existing, err
}

// query returns the records of a statement.
func (s *Store) query(ctx context.Context, sql string, args ...any) (list []store.Record, err error) {
	err = s.do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		list, err = s.records(tx.Query(ctx, sql, args...))
		return err
	})
	return list, err
}

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, runID string) (*store.Record, error) {
	return first(s.query(ctx, `SELECT `+columns+` FROM agentd_sessions WHERE run_id = $1`, []byte(runID)))
}

// Enter implements [store.Store]. The update locks the row, so a lease is entered before
// the session is marked as closing, or not at all.
func (s *Store) Enter(ctx context.Context, id, lease uuid.UUID) (bool, error) {
	rows, err := s.exec(ctx, `WITH used AS (UPDATE agentd_sessions SET last_used = now() WHERE id = $1 AND NOT closing RETURNING id)
		INSERT INTO agentd_leases SELECT $2, id, now() + $3::interval FROM used`, id, lease, s.lease)
	return rows == 1, err
}

// Leave implements [store.Store].
func (s *Store) Leave(ctx context.Context, lease uuid.UUID) error {
	_, err := s.exec(ctx, `WITH ended AS (DELETE FROM agentd_leases WHERE id = $1 RETURNING session)
		UPDATE agentd_sessions SET last_used = now() FROM ended WHERE id = session`, lease)
	return err
}

// MarkClosing implements [store.Store].
func (s *Store) MarkClosing(ctx context.Context, runID string) (*store.Record, error) {
	return first(s.query(ctx, `UPDATE agentd_sessions SET closing = true WHERE run_id = $1 AND NOT closing RETURNING `+columns, []byte(runID)))
}

// MarkIdle implements [store.Store].
func (s *Store) MarkIdle(ctx context.Context, unused time.Duration) ([]store.Record, error) {
	return s.query(ctx, `UPDATE agentd_sessions AS s SET closing = true WHERE NOT closing AND last_used <= now() - $2::interval
		AND NOT EXISTS (SELECT FROM agentd_leases WHERE session = s.id AND `+live+`) RETURNING `+columns, s.grace, unused)
}

// Delete implements [store.Store].
func (s *Store) Delete(ctx context.Context, id uuid.UUID) (gone bool, err error) {
	err = s.do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM agentd_sessions AS s WHERE id = $2
			AND NOT EXISTS (SELECT FROM agentd_leases WHERE session = s.id AND `+live+`)`, s.grace, id)
		gone = err == nil && tag.RowsAffected() > 0
		if err != nil || gone {
			return err
		}
		return tx.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM agentd_sessions WHERE id = $1)`, id).Scan(&gone)
	})
	return gone, err
}

// Count implements [store.Store].
func (s *Store) Count(ctx context.Context) (n int, err error) {
	err = s.do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*) FROM agentd_sessions`).Scan(&n)
	})
	return n, err
}

// Renew implements [store.Shared]. A closing session without leases is one whose server
// crashed in a DELETE.
func (s *Store) Renew(ctx context.Context, leases, sessions []uuid.UUID) (closed []uuid.UUID, err error) {
	err = s.do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if len(leases) > 0 {
			if _, err := tx.Exec(ctx, `UPDATE agentd_leases SET expires = now() + $1::interval WHERE id = ANY($2)`, s.lease, leases); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `DELETE FROM agentd_leases WHERE NOT `+live, s.grace); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM agentd_sessions AS s WHERE closing
			AND NOT EXISTS (SELECT FROM agentd_leases WHERE session = s.id AND `+live+`)`, s.grace); err != nil {
			return err
		}
		if len(sessions) == 0 {
			return nil
		}
		rows, _ := tx.Query(ctx, `SELECT id FROM unnest($1::uuid[]) AS id
			WHERE NOT EXISTS (SELECT FROM agentd_sessions AS s WHERE s.id = id.id AND NOT closing)`, sessions) // rows has the error
		closed, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	return closed, err
}

// Claim implements [store.Shared].
func (s *Store) Claim(ctx context.Context, session uuid.UUID, request string, lease uuid.UUID) (kept *store.Kept, claimed bool, err error) {
	err = s.do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// With the session locked, the next statement sees all leases and claims.
		if err := lock(ctx, tx, session); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `INSERT INTO agentd_answers AS a (session, request, lease) VALUES ($2, $3, $4)
			ON CONFLICT (session, request) DO UPDATE SET lease = excluded.lease
			WHERE a.response IS NULL AND NOT EXISTS (SELECT FROM agentd_leases WHERE id = a.lease AND `+live+`)`,
			s.grace, session, request, lease)
		claimed = err == nil && tag.RowsAffected() > 0
		if err != nil || claimed {
			return err
		}
		kept, err = answer(ctx, tx, session, request)
		return err
	})
	return kept, claimed, err
}

// Settle implements [store.Shared].
func (s *Store) Settle(ctx context.Context, session uuid.UUID, request string, lease uuid.UUID, given *store.Kept) (kept *store.Kept, err error) {
	err = s.do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lock(ctx, tx, session); err != nil {
			return err
		}
		const unsettled = ` WHERE session = $1 AND request = $2 AND lease = $3 AND response IS NULL`
		if given == nil || len(given.Response) > store.MaxAnswerBytes {
			kept = nil
			_, err := tx.Exec(ctx, `DELETE FROM agentd_answers`+unsettled, session, request, lease)
			return err
		}
		if len(given.Response) == 0 { // no lease has the session's id
			_, err := tx.Exec(ctx, `UPDATE agentd_answers SET lease = session`+unsettled, session, request, lease)
			return err
		}
		// Whoever settles first is right, also if its claim was taken over.
		tag, err := tx.Exec(ctx, `UPDATE agentd_answers SET provider = $3, response = $4, settled = clock_timestamp()
			WHERE session = $1 AND request = $2 AND response IS NULL`, session, request, given.Provider, given.Response)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			kept, err = answer(ctx, tx, session, request)
			return err
		}
		kept = given
		return prune(ctx, tx, session)
	})
	return kept, err
}

// lock makes other changes to a session's answers and leases wait. A session that is gone
// has none.
func lock(ctx context.Context, tx pgx.Tx, session uuid.UUID) error {
	var id uuid.UUID
	return tx.QueryRow(ctx, `SELECT id FROM agentd_sessions WHERE id = $1 FOR NO KEY UPDATE`, session).Scan(&id)
}

// answer reads a kept answer, nil if there is none.
func answer(ctx context.Context, tx pgx.Tx, session uuid.UUID, request string) (*store.Kept, error) {
	var kept store.Kept
	err := tx.QueryRow(ctx, `SELECT provider, response FROM agentd_answers WHERE session = $1 AND request = $2 AND response IS NOT NULL`, session, request).
		Scan(&kept.Provider, &kept.Response)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &kept, err
}

// prune removes the oldest answers beyond the bounds of a session.
func prune(ctx context.Context, tx pgx.Tx, session uuid.UUID) error {
	_, err := tx.Exec(ctx, `DELETE FROM agentd_answers WHERE session = $1 AND request IN (
		SELECT request FROM (
			SELECT request, row_number() OVER newest AS n, sum(octet_length(response)) OVER newest AS bytes
			FROM agentd_answers WHERE session = $1 AND response IS NOT NULL WINDOW newest AS (ORDER BY settled DESC)
		) AS a WHERE n > $2 OR bytes > $3)`, session, store.MaxAnswers, store.MaxAnswerBytes)
	return err
}
