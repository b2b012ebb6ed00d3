package connection

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLackOfDescriptorsIsAnErrorOncePerMinute(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1e9, 0)
	l := &errorLog{log: zerolog.New(&log), now: func() time.Time { return now }}
	full := "http: Accept error: accept tcp 127.0.0.1:8888: accept4: " + syscall.EMFILE.Error() + "; retrying in 5ms\n"
	for range 5 {
		l.Write([]byte(full))
	}
	l.Write([]byte("http: TLS handshake error from 127.0.0.1:1: EOF\n"))
	now = now.Add(descriptorsEvery)
	l.Write([]byte(strings.Replace(full, syscall.EMFILE.Error(), syscall.ENFILE.Error(), 1)))
	if n := strings.Count(log.String(), `"level":"error"`); n != 2 || strings.Count(log.String(), "ulimit -n") != 2 {
		t.Errorf("%d lines are errors:\n%s", n, &log)
	}
	if n := strings.Count(log.String(), `"level":"debug"`); n != 5 {
		t.Errorf("%d lines are for debugging:\n%s", n, &log)
	}
	if n := strings.Count(log.String(), `"message"`); n != 7 || strings.Count(log.String(), `"error":"http: `) != 7 {
		t.Errorf("%d messages in 7 lines:\n%s", n, &log)
	}
}

// poor is a listener that has no descriptor for its first connection.
type poor struct {
	net.Listener
	asked bool
}

func (p *poor) Accept() (net.Conn, error) {
	if !p.asked {
		p.asked = true
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return p.Listener.Accept()
}

func TestServerGoesOnAfterALackOfDescriptors(t *testing.T) {
	var log bytes.Buffer
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(http.NotFoundHandler(), zerolog.New(&log))
	served := make(chan error, 1)
	go func() { served <- Serve(s, &poor{Listener: l}, nil, func(int, string) {}) }()
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	s.Close()
	if err := <-served; err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("got %s, %v", res.Status, err)
	}
	if !strings.Contains(log.String(), "ulimit -n") {
		t.Errorf("the log has %s", &log)
	}
}
