package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/postgres/pgtest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openDB opens a database that is closed at the end of the test.
func openDB(t *testing.T, url string) *DB {
	t.Helper()
	d, err := Open(t.Context(), url, Schema{Name: "test", Migrations: []string{`CREATE TABLE counts (n int)`}}, zerolog.New(zerolog.NewTestWriter(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func TestTransactionRolledBackForOthersIsTriedAgain(t *testing.T) {
	d := openDB(t, pgtest.Start(t, false).URL)
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
			if _, err := d.Exec(t.Context(), `TRUNCATE counts`); err != nil {
				t.Fatal(err)
			}
			tries := 0
			err := d.Do(t.Context(), pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
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
			if err := d.Do(t.Context(), pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
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
			one, other := openDB(t, url), openDB(t, url)
			var work sync.WaitGroup
			for i := range 64 {
				work.Go(func() {
					if _, err := []*DB{one, other}[i%2].Exec(t.Context(), `INSERT INTO counts VALUES ($1)`, i); err != nil {
						t.Error(err)
					}
				})
			}
			work.Wait()
			for range 5 { // more than the listeners' own
				if err := one.Do(t.Context(), pgx.TxOptions{}, one.Notify); err != nil {
					t.Fatal(err)
				}
				<-other.Changes()
			}
		})
	}
}

func TestPoolerInStatementModeIsRefusedWithFix(t *testing.T) {
	url := pgtest.Start(t, false).Pooler(t, "statement", 2)
	_, err := Open(t.Context(), url, Schema{Name: "test"}, zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), "set the pooler's pool_mode to transaction or session") {
		t.Errorf("got %v", err)
	}
}

func TestLateNotificationPollsOnlyForAWhile(t *testing.T) {
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	d := &DB{changes: make(chan struct{}, 1), log: zerolog.New(&log)}
	var now time.Duration
	polls := 0
	d.after = func(wait time.Duration) <-chan time.Time {
		select {
		case <-d.changes:
			polls++
		default:
			t.Error("a wait without a look at the database")
		}
		now += wait
		passed := make(chan time.Time)
		close(passed)
		return passed
	}
	var began []time.Duration
	d.listen(ctx, func(ctx context.Context, _ func()) error {
		began = append(began, now)
		if len(began) <= 2 {
			return errSilent
		}
		cancel() // it delivers until the end
		return ctx.Err()
	})
	if !slices.Equal(began, []time.Duration{0, pollFor, 2 * pollFor}) || polls != int(2*pollFor/pollEvery) {
		t.Errorf("it listened at %v and polled %d times", began, polls)
	}
	if n := strings.Count(log.String(), "delivers no notifications"); n != 1 {
		t.Errorf("the log says it %d times", n)
	}
}
