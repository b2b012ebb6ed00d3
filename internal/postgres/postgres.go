// Package postgres connects a store to a PostgreSQL database: migrations, transactions with a
// time limit, and notifications that survive a broken connection.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentd/internal/retry"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
)

// Schema is what a store needs in the database.
type Schema struct {
	// Name names the store's row in the table agentd_schema and its channel of
	// notifications.
	Name string
	// Migrations are scripts. The schema's version is the number of those that ran.
	Migrations []string
}

// DB is a database. Make it with Open and end it with Close.
type DB struct {
	pool    *pgxpool.Pool
	schema  Schema
	log     zerolog.Logger
	changes chan struct{}
	after   func(time.Duration) <-chan time.Time
	cancel  context.CancelFunc
	loops   sync.WaitGroup
}

const (
	// limit bounds one transaction. A database that hangs must not hold up its caller.
	limit = 10 * time.Second
	// migrationLimit bounds the migrations, which may wait for another process.
	migrationLimit = 5 * time.Minute
	// minBackoff and maxBackoff bound the pause before the listener connects again.
	minBackoff, maxBackoff = 50 * time.Millisecond, 5 * time.Second
	// probeTime is how long a notification to ourselves may take. Without a pooler it takes
	// milliseconds.
	probeTime = 3 * time.Second
	// pollEvery is the time between two looks at a database that delivers no notifications, and
	// pollFor the time until it is asked for notifications again: it may only have been slow.
	pollEvery = time.Second
	pollFor   = 5 * time.Minute
	// maxTries bounds how often one transaction is tried. Deadlocks that last longer are a
	// fault of the program.
	maxTries = 5
)

// Codes of errors after which PostgreSQL has rolled the transaction back.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
)

// errPassword is the error of a URL whose password may end in another part of it.
var errPassword = errors.New("cannot be read as a URL; in a user name or password write @ as %40, / as %2F, ? as %3F, # as %23 and % as %25")

// Check returns what is wrong with a connection string. The error repeats no part of it that
// may belong to a password.
func Check(address string) error {
	scheme, rest, _ := strings.Cut(address, "://")
	if scheme != "postgres" && scheme != "postgresql" {
		return errors.New("want a URL such as postgres://user@host/database")
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if path, _, _ := strings.Cut(tail, "?"); path != "" {
		tail = path // a query without a path may be the rest of a password
	}
	if _, err := url.Parse(address); err != nil || strings.Count(authority, "@") > 1 || strings.Contains(tail, "@") || strings.Contains(rest, "#") {
		return errPassword
	}
	_, err := pgxpool.ParseConfig(address)
	if err == nil {
		return nil
	}
	text := err.Error() // it begins with the URL in backquotes
	return errors.New(text[strings.LastIndex(text, "`")+1:])
}

// SafeURL is a connection string for logs, without passwords.
func SafeURL(address string) string {
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil || Check(address) != nil {
		return "postgres://"
	}
	c := cfg.ConnConfig
	return fmt.Sprintf("postgres://%s@%s/%s", c.User, net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), c.Database)
}

// Open connects to the database, migrates it and listens for notifications.
func Open(ctx context.Context, address string, schema Schema, log zerolog.Logger) (*DB, error) {
	if err := Check(address); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	if cfg.ConnConfig.ConnectTimeout == 0 || cfg.ConnConfig.ConnectTimeout > limit {
		cfg.ConnConfig.ConnectTimeout = limit
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "agentd"
	}
	// A prepared statement belongs to one connection of the server. A pooler in transaction mode
	// gives each transaction another one. So only descriptions of statements are kept.
	if cfg.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	d := &DB{pool: pool, schema: schema, log: log, changes: make(chan struct{}, 1), after: time.After}
	if err := d.migrate(ctx); err != nil {
		pool.Close()
		if strings.Contains(err.Error(), "statement pooling") {
			err = fmt.Errorf("%w; transactions are needed, so set the pooler's pool_mode to transaction or session", err)
		}
		return nil, err
	}
	ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	d.loops.Go(func() { d.listen(ctx, d.notifications) })
	return d, nil
}

// Close ends the connections.
func (d *DB) Close() {
	d.cancel()
	d.loops.Wait()
	d.pool.Close()
}

// migrate runs the migrations that the database lacks. A lock keeps other processes from
// doing the same.
func (d *DB) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrationLimit)
	defer cancel()
	return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		// Two processes that create the same table at the same time would fail.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('agentd migrations'))`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS agentd_schema (name text PRIMARY KEY, version int NOT NULL)`); err != nil {
			return err
		}
		version := 0
		err := tx.QueryRow(ctx, `SELECT version FROM agentd_schema WHERE name = $1`, d.schema.Name).Scan(&version)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if known := len(d.schema.Migrations); version > known {
			return fmt.Errorf("the database has version %d of the tables for %s, this program knows %d; use the program that wrote it, or another database", version, d.schema.Name, known)
		}
		for _, script := range d.schema.Migrations[version:] {
			if _, err := tx.Exec(ctx, script); err != nil {
				return fmt.Errorf("migration of the tables for %s: %w", d.schema.Name, err)
			}
		}
		_, err = tx.Exec(ctx, `INSERT INTO agentd_schema VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET version = $2`, d.schema.Name, len(d.schema.Migrations))
		return err
	})
}

// Do runs f in a transaction, which is rolled back if f returns an error. f must be able to
// run again: the transaction is tried up to maxTries times if PostgreSQL rolled it back to
// resolve a conflict, or if the connection turns out broken before anything was sent.
func (d *DB) Do(ctx context.Context, options pgx.TxOptions, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for try := 1; ; try++ {
		err := pgx.BeginTxFunc(ctx, d.pool, options, func(tx pgx.Tx) error { return f(ctx, tx) })
		if err == nil || try == maxTries || ctx.Err() != nil || !undone(err) {
			return err
		}
		d.log.Debug().Err(err).Int("try", try).Msg("database transaction is tried again")
	}
}

// undone reports whether a transaction has certainly had no effect, and may succeed if it is
// tried again.
func undone(err error) bool {
	var failed *pgconn.PgError
	if errors.As(err, &failed) {
		return failed.Code == serializationFailure || failed.Code == deadlockDetected
	}
	return pgconn.SafeToRetry(err)
}

// Exec runs one statement and returns how many rows it touched.
func (d *DB) Exec(ctx context.Context, sql string, args ...any) (rows int64, err error) {
	err = d.Do(ctx, pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sql, args...)
		rows = tag.RowsAffected()
		return err
	})
	return rows, err
}

// Changes receives after Notify in any process. It also receives when the connection is
// back, since notifications may have been missed. Several in short time count as one. Where a
// pooler delivers none, it receives about every second instead.
func (d *DB) Changes() <-chan struct{} { return d.changes }

// Notify reports a change to all processes once the transaction is committed.
func (d *DB) Notify(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT pg_notify($1, '')`, d.channel())
	return err
}

func (d *DB) channel() string { return "agentd_" + d.schema.Name }

// changed makes Changes receive.
func (d *DB) changed() {
	select {
	case d.changes <- struct{}{}:
	default: // the last one is still unread
	}
}

// errSilent is the error of a connection that gets no notifications.
var errSilent = errors.New("the database delivers no notifications")

// listen passes notifications on and connects again when the connection breaks. While the database
// delivers none, it polls. notifications is the method of that name.
func (d *DB) listen(ctx context.Context, notifications func(ctx context.Context, changed func()) error) {
	failures, polls := 0, false
	for {
		err := notifications(ctx, func() {
			failures = 0
			d.changed()
		})
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errSilent):
			if !polls {
				d.log.Warn().Stringer("poll_every", pollEvery).Msg("the database delivers no notifications, so it is polled for changes; " +
					"a pooler in transaction mode delivers none: for less delay, name PostgreSQL itself or a pool in session mode in the URL")
			}
			polls = true
			d.poll(ctx)
			continue
		}
		polls = false
		failures++
		pause := retry.Backoff(failures, minBackoff, maxBackoff, rand.Float64())
		d.log.Warn().Err(err).Stringer("next_try_in", pause).Msg("database connection for notifications lost")
		select {
		case <-d.after(pause):
		case <-ctx.Done():
			return
		}
	}
}

// poll takes the place of notifications for a while.
func (d *DB) poll(ctx context.Context) {
	for range pollFor / pollEvery {
		d.changed()
		select {
		case <-d.after(pollEvery):
		case <-ctx.Done():
			return
		}
	}
}

// notifications calls changed for each notification, and once at its start. It returns
// when the connection breaks, or errSilent if the first notification does not arrive.
func (d *DB) notifications(ctx context.Context, changed func()) error {
	conn, err := pgx.ConnectConfig(ctx, d.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it is broken or not used any more
	if _, err := conn.Exec(ctx, `LISTEN `+pgx.Identifier{d.channel()}.Sanitize()); err != nil {
		return err
	}
	changed()
	// A pooler accepts LISTEN, too. Only a notification by another connection shows whether
	// any arrive.
	if err := d.Do(ctx, pgx.TxOptions{}, d.Notify); err != nil {
		return err
	}
	first, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if _, err := conn.WaitForNotification(first); err != nil {
		if first.Err() != nil {
			return errSilent
		}
		return err
	}
	for {
		changed()
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}
