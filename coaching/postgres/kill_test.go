package postgres

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"agentd/coaching/internal/storetest"
	"agentd/coaching/postgres/pgtest"
	"agentd/coaching/store"
	"agentd/internal/base/waittest"
)

// Variables of a process that serves a store to a test: the database, and the key.
const (
	processVariable = "TEST_STORE_URL"
	keyVariable     = "TEST_STORE_KEY"
)

// standard are standard input and output.
type standard struct{}

func (standard) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (standard) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (standard) Close() error                { return os.Stdin.Close() }

// serveStore serves a store until the test's end of the pipe is closed.
func serveStore(url string) {
	keys, err := ReadKeys(os.Getenv(keyVariable))
	if err == nil {
		var s *Store
		if s, err = Open(context.Background(), Options{URL: url, Keys: keys, Lease: time.Hour, Log: zerolog.Nop()}); err == nil {
			s.grace = 0
			Serve(s, standard{})
			return
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// storeProcess is a process with a store.
type storeProcess struct {
	*Remote
	cmd *exec.Cmd
}

// pipes are a process's standard input and output, as its parent has them.
type pipes struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipes) Close() error {
	_ = p.ReadCloser.Close() // one that the process's end closed
	return p.WriteCloser.Close()
}

func startStore(t *testing.T, url, key string) *storeProcess {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), processVariable+"="+url, keyVariable+"="+key)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &storeProcess{NewRemote(pipes{out, in}), cmd}
}

// kill ends the process as a crash does.
func (p *storeProcess) kill() {
	_ = p.cmd.Process.Kill()
	p.Close()
	_ = p.cmd.Wait() // killed
}

// TestStoreMatchesModelAcrossKills makes random operations by three processes, of which one or
// the database is killed now and then in the middle of an operation.
func TestStoreMatchesModelAcrossKills(t *testing.T) {
	server, key := pgtest.Start(t, true), newKey()
	control := open(t, server.URL, readKeys(t, key), time.Hour)
	// Each statement may find a connection to a killed database.
	persist := func(f func(ctx context.Context, tx pgx.Tx) error) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; {
			err := control.do(context.Background(), f)
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		persist(func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql, args...)
			return err
		})
	}
	name := func(i int) string { return fmt.Sprint("replica-", i) }
	processes, stores := make([]*storeProcess, 3), make([]store.Store, 3)
	begin := func(i int) {
		processes[i] = startStore(t, server.URL+"&application_name="+name(i), key)
		stores[i] = processes[i]
		if _, err := stores[i].Count(context.Background()); err != nil { // once it has connected
			t.Fatal(err)
		}
	}
	for i := range stores {
		begin(i)
		t.Cleanup(func() { processes[i].kill() })
	}
	kills := map[string]int{}
	kill := func(i int) func() {
		if i == storetest.Database {
			kills["database"]++
			server.Kill()
			return func() { server.Restart(t) }
		}
		kills[name(i)]++
		processes[i].kill()
		return func() {
			waittest.Eventually(t, "the end of the killed process's transactions", func() (ended bool) {
				persist(func(ctx context.Context, tx pgx.Tx) error {
					return tx.QueryRow(ctx, `SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = $1`, name(i)).Scan(&ended)
				})
				return ended
			})
			begin(i)
		}
	}
	storetest.Run(t, func() storetest.Replicas {
		exec(`TRUNCATE agentd_sessions CASCADE`)
		return storetest.Replicas{
			Stores: stores, Kill: kill,
			Expire: func(leases []uuid.UUID) {
				exec(`UPDATE agentd_leases SET expires = now() - interval '1 second' WHERE id = ANY($1)`, leases)
			},
			Contents: func() (lines []string) {
				persist(func(ctx context.Context, tx pgx.Tx) error {
					var err error
					lines, err = contents(ctx, tx)
					return err
				})
				return lines
			},
		}
	})
	t.Logf("killed: %v", kills)
}

// contents lists what the tables hold.
func contents(ctx context.Context, tx pgx.Tx) (lines []string, err error) {
	var id, session uuid.UUID
	var run, response []byte
	var request string
	var closing bool
	for _, table := range []struct {
		sql  string
		into []any
		line func() string
	}{
		{`SELECT id, run_id, closing FROM agentd_sessions`, []any{&id, &run, &closing}, func() string { return storetest.SessionLine(id, string(run), closing) }},
		{`SELECT id, session FROM agentd_leases WHERE expires > now()`, []any{&id, &session}, func() string { return storetest.LeaseLine(id, session) }},
		{`SELECT session, request, lease, response FROM agentd_answers`, []any{&session, &request, &id, &response}, func() string { return storetest.AnswerLine(session, request, id, response) }},
	} {
		rows, err := tx.Query(ctx, table.sql)
		if err != nil {
			return nil, err
		}
		if _, err := pgx.ForEachRow(rows, table.into, func() error {
			lines = append(lines, table.line())
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return lines, nil
}
