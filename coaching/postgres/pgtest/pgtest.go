// Package pgtest runs PostgreSQL servers for tests, as child processes on a Unix socket.
package pgtest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/internal/base/subprocess"
)

// patience is how long a server may take to start; only failures take it.
const patience = time.Minute

// pause is the time between two looks at a server that starts.
const pause = 20 * time.Millisecond

// Server is a running server. It ends with its test.
type Server struct {
	URL string

	directory  string
	program    string
	options    []string
	credential *syscall.Credential // nil: this process's own
	process    *os.Process
	ended      chan struct{} // closed when the process has ended; nil: none runs
}

// Start starts a server with an empty database. A durable one keeps what it has committed
// when it is killed. The test is skipped if PostgreSQL is not installed.
func Start(t testing.TB, durable bool) *Server {
	t.Helper()
	bin := programs()
	if bin == "" {
		t.Skip("PostgreSQL's server programs are not installed (Debian and Ubuntu: sudo apt-get install postgresql)")
	}
	directory, err := os.MkdirTemp("", "pg") // a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{directory: directory, program: filepath.Join(bin, "postgres"), URL: "postgres:///postgres?user=test&host=" + directory}
	t.Cleanup(func() {
		s.Kill()
		if err := os.RemoveAll(directory); err != nil {
			t.Error(err)
		}
	})
	if err := s.leaveRoot(); err != nil {
		t.Fatal(err)
	}
	// The system keeps what a killed process has written, so nothing waits for the disk.
	s.options = []string{"-D", filepath.Join(directory, "data"), "-k", directory, "-c", "listen_addresses=", "-c", "max_connections=100", "-c", "fsync=off", "-c", "full_page_writes=off"}
	if !durable {
		s.options = append(s.options, "-c", "synchronous_commit=off")
	}
	initdb := s.command(filepath.Join(bin, "initdb"), "-D", filepath.Join(directory, "data"), "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if text, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, text)
	}
	s.Restart(t)
	return s
}

// programs is the directory of the newest server programs, "" if there are none.
func programs() string {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return ""
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	if len(found) > 0 {
		return filepath.Dir(found[0])
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	return ""
}

// leaveRoot makes the server's processes run as another user, since PostgreSQL refuses to
// run as root.
func (s *Server) leaveRoot() error {
	if os.Geteuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		if account, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return err
	}
	s.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.directory, int(uid), int(gid))
}

// command is a program that runs as the server's user.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...) //nolint:gosec,noctx // a program of an installed PostgreSQL, ended by Kill
	cmd.Dir = s.directory
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential, Setpgid: true}
	return cmd
}

// Kill kills the server as a crash does.
func (s *Server) Kill() {
	if s.ended != nil {
		_ = s.process.Kill() // it may have ended already
		<-s.ended
		s.ended = nil
	}
}

// Restart starts the server after Kill and waits until it answers. Processes of the killed
// one may hold its memory for a moment, so it tries until it succeeds.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		var output bytes.Buffer
		cmd := s.command(s.program, s.options...)
		cmd.Stdout, cmd.Stderr = &output, &output
		ended := make(chan struct{})
		if err := subprocess.Start(cmd, syscall.SIGQUIT, func(error) { close(ended) }); err != nil { // output says why it ended
			t.Fatal(err)
		}
		s.process, s.ended = cmd.Process, ended
		if s.answers(deadline) {
			return
		}
		s.Kill()
		if time.Now().After(deadline) {
			t.Fatalf("PostgreSQL does not start:\n%s", output.String())
		}
	}
}

// answers waits until the server answers. It returns false if the server ends.
func (s *Server) answers(deadline time.Time) bool {
	for time.Now().Before(deadline) {
		conn, err := pgx.Connect(context.Background(), s.URL)
		if err == nil {
			return conn.Close(context.Background()) == nil
		}
		select {
		case <-s.ended:
			return false
		case <-time.After(pause):
		}
	}
	return false
}
