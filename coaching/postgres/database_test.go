package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"agentd/coaching/postgres/pgtest"
)

// openCounts opens a store with one more table. It is closed at the end of the test.
func openCounts(t *testing.T, url string) *Store {
	t.Helper()
	s := open(t, url, nil, DefaultLease)
	if _, err := s.exec(t.Context(), `CREATE TABLE IF NOT EXISTS counts (n int)`); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTransactionRolledBackForOthersIsTriedAgain(t *testing.T) {
	d := openCounts(t, pgtest.Start(t, false).URL)
	for _, c := range []struct {
		name   string
		raised string // the condition that the server raises
		fails  int    // how often
		tries  int    // that are wanted
		code   string // of the error, "" for none
	}{
		{"deadlock", "deadlock_detected", 1, 2, ""},
		{"serialization failure", "serialization_failure", maxTries - 1, maxTries, ""},
		{"deadlocks without end", "deadlock_detected", maxTries, maxTries, deadlockDetected},
		{"another error", "division_by_zero", 1, 1, "22012"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := d.exec(t.Context(), `TRUNCATE counts`); err != nil {
				t.Fatal(err)
			}
			tries := 0
			err := d.do(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
				tries++
				if _, err := tx.Exec(ctx, `INSERT INTO counts VALUES ($1)`, tries); err != nil {
					return err
				}
				if tries <= c.fails {
					_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE `+c.raised+`; END $$`)
					return err
				}
				return nil
			})
			var failed *pgconn.PgError
			if (c.code == "") != (err == nil) || err != nil && (!errors.As(err, &failed) || failed.Code != c.code) {
				t.Errorf("the error is %v, want code %q", err, c.code)
			}
			rows := -1
			if err := d.do(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
				return tx.QueryRow(ctx, `SELECT count(*) FROM counts`).Scan(&rows)
			}); err != nil {
				t.Fatal(err)
			}
			want := 0
			if c.code == "" {
				want = 1
			}
			if tries != c.tries || rows != want {
				t.Errorf("%d tries left %d rows, want %d tries and %d rows", tries, rows, c.tries, want)
			}
		})
	}
}

func TestPoolerInEachModeServesTwoProcesses(t *testing.T) {
	for mode, size := range map[string]int{"session": 20, "transaction": 2} {
		t.Run(mode, func(t *testing.T) {
			url := pgtest.Start(t, false).Pooler(t, mode, size)
			one, other := openCounts(t, url), openCounts(t, url)
			var work sync.WaitGroup
			for i := range 64 {
				work.Go(func() {
					if _, err := []*Store{one, other}[i%2].exec(t.Context(), `INSERT INTO counts VALUES ($1)`, i); err != nil {
						t.Error(err)
					}
				})
			}
			work.Wait()
		})
	}
}

func TestPoolerInStatementModeIsRefusedWithFix(t *testing.T) {
	url := pgtest.Start(t, false).Pooler(t, "statement", 2)
	_, err := Open(t.Context(), Options{URL: url})
	if err == nil || !strings.Contains(err.Error(), "set the pooler's pool_mode to transaction or session") {
		t.Errorf("got %v", err)
	}
}

func TestTransactionsHaveTheConnectTimeoutIfItIsLonger(t *testing.T) {
	url := pgtest.Start(t, false).URL
	for more, want := range map[string]time.Duration{"": 10 * time.Second, "&connect_timeout=3": 10 * time.Second, "&connect_timeout=60": time.Minute} {
		s, err := Open(t.Context(), Options{URL: url + more})
		if err != nil {
			t.Fatal(err)
		}
		if s.Close(); s.limit != want {
			t.Errorf("%q: %v, want %v", more, s.limit, want)
		}
	}
}
