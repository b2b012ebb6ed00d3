package pgtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Pooler starts a PgBouncer before the server and returns the URL of its database. mode is its
// pool_mode, size the most connections that it has to the server. It ends with the test, which
// is skipped if PgBouncer is not installed.
func (s *Server) Pooler(t testing.TB, mode string, size int) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("PgBouncer is not installed (Debian and Ubuntu: sudo apt-get install pgbouncer)")
	}
	config := filepath.Join(s.directory, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
* = host=%[1]s user=test
[pgbouncer]
listen_port = 6432
unix_socket_dir = %[1]s
auth_type = any
pool_mode = %[2]s
default_pool_size = %[3]d
`, s.directory, mode, size)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil { //nolint:gosec // the server's user reads it
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd := s.command(program, config)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its output says why
	}()
	stop := func() {
		_ = cmd.Process.Kill() // it may have ended already
		<-ended
	}
	t.Cleanup(stop)
	address := strings.Replace(s.URL, "?", "?port=6432&", 1)
	if pooled := (&Server{URL: address, ended: ended}); !pooled.answers(time.Now().Add(patience)) {
		stop()
		t.Fatalf("PgBouncer does not start:\n%s", output.String())
	}
	return address
}
