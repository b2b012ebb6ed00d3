package postgres

import (
	"context"
	"errors"

	"agentd/coaching"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Claim implements [coaching.Shared].
func (s *Store) Claim(ctx context.Context, session uuid.UUID, request string, lease uuid.UUID) (kept *coaching.Kept, claimed bool, err error) {
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
	if err != nil {
		return nil, false, err
	}
	return kept, claimed, nil
}

// Settle implements [coaching.Shared].
func (s *Store) Settle(ctx context.Context, session uuid.UUID, request string, lease uuid.UUID, given *coaching.Kept) (kept *coaching.Kept, err error) {
	err = s.do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lock(ctx, tx, session); err != nil {
			return err
		}
		if given == nil || len(given.Response) > coaching.MaxAnswerBytes {
			kept = nil
			if _, err := tx.Exec(ctx, `DELETE FROM agentd_answers WHERE session = $1 AND request = $2 AND lease = $3 AND response IS NULL`, session, request, lease); err != nil {
				return err
			}
			return s.db.Notify(ctx, tx)
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
		if err := prune(ctx, tx, session); err != nil {
			return err
		}
		return s.db.Notify(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	return kept, nil
}

// lock makes other changes to a session's answers and leases wait. A session that is gone
// has none.
func lock(ctx context.Context, tx pgx.Tx, session uuid.UUID) error {
	var id uuid.UUID
	return tx.QueryRow(ctx, `SELECT id FROM agentd_sessions WHERE id = $1 FOR NO KEY UPDATE`, session).Scan(&id)
}

// answer reads a kept answer, nil if there is none.
func answer(ctx context.Context, tx pgx.Tx, session uuid.UUID, request string) (*coaching.Kept, error) {
	var kept coaching.Kept
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
		) AS a WHERE n > $2 OR bytes > $3)`, session, coaching.MaxAnswers, coaching.MaxAnswerBytes)
	return err
}
