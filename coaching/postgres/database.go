package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"agentd/coaching/store"
)

//go:embed schema.sql
var schema string

// migrations never change once released. A new version appends one. The schema's version is the number of
// those that ran.
var migrations = []string{schema}

// schemaName names our row in the table agentd_schema.
const schemaName = "coaching"

const (
	// usualLimit bounds one transaction and one connection: a database that hangs must not hold up its caller. A longer
	// connect_timeout of the URL replaces it.
	usualLimit = 10 * time.Second
	// migrationLimit bounds the migrations, which may wait for another process.
	migrationLimit = 5 * time.Minute
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

// SafeURL returns a connection string without passwords, for logs.
func SafeURL(address string) string {
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil || Check(address) != nil {
		return "postgres://"
	}
	c := cfg.ConnConfig
	return fmt.Sprintf("postgres://%s@%s/%s", c.User, net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), c.Database)
}

// connect opens a pool of connections.
func connect(ctx context.Context, address string) (*pgxpool.Pool, error) {
	if err := Check(address); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = usualLimit
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "agentd"
	}
	// A prepared statement belongs to one connection of the server. A pooler in transaction mode
	// gives each transaction another one. So only descriptions of statements are kept.
	if cfg.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// migrate runs the migrations that the database lacks. A lock keeps other processes from
// doing the same.
func (s *Store) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrationLimit)
	defer cancel()
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// Two processes that create the same table at the same time would fail.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('agentd migrations'))`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS agentd_schema (name text PRIMARY KEY, version int NOT NULL)`); err != nil {
			return err
		}
		version := 0
		err := tx.QueryRow(ctx, `SELECT version FROM agentd_schema WHERE name = $1`, schemaName).Scan(&version)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if known := len(migrations); version > known {
			return fmt.Errorf("the database has version %d of the tables for %s, this program knows %d; use the program that wrote it, or another database", version, schemaName, known)
		}
		for _, script := range migrations[version:] {
			if _, err := tx.Exec(ctx, script); err != nil {
				return fmt.Errorf("migration of the tables for %s: %w", schemaName, err)
			}
		}
		_, err = tx.Exec(ctx, `INSERT INTO agentd_schema VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET version = $2`, schemaName, len(migrations))
		return err
	})
}

// do runs f in a transaction, which is rolled back if f returns an error. f must be able to
// run again: the transaction is tried up to maxTries times if PostgreSQL rolled it back to
// resolve a conflict, or if the connection turns out broken before anything was sent. The error is a
// *store.FullError of f, a *store.Error, or that of the context.
func (s *Store) do(caller context.Context, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(caller, s.limit)
	defer cancel()
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(ctx, tx) })
		switch {
		case err == nil || errors.As(err, new(*store.FullError)):
			return err
		case caller.Err() != nil:
			return caller.Err()
		case try == maxTries || ctx.Err() != nil || !undone(err):
			return &store.Error{Err: err}
		}
		s.log.Debug().Err(err).Int("try", try).Msg("database transaction is tried again")
	}
}

// undone reports whether a transaction has certainly had no effect, and may succeed when it is repeated.
func undone(err error) bool {
	if failed, ok := errors.AsType[*pgconn.PgError](err); ok {
		return failed.Code == serializationFailure || failed.Code == deadlockDetected
	}
	return pgconn.SafeToRetry(err)
}

// exec runs one statement and returns how many rows it touched.
func (s *Store) exec(ctx context.Context, sql string, args ...any) (rows int64, err error) {
	err = s.do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sql, args...)
		rows = tag.RowsAffected()
		return err
	})
	return rows, err
}
