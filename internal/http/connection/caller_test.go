package connection

import (
	"bytes"
	"net"
	"testing"
	"time"
)

// written is a connection that keeps what is written.
type written struct {
	net.Conn
	bytes.Buffer
}

func (w *written) Write(p []byte) (int, error)      { return w.Buffer.Write(p) }
func (w *written) Read(p []byte) (int, error)       { return w.Buffer.Read(p) }
func (w *written) SetWriteDeadline(time.Time) error { return nil }

func TestNoInterimAnswerAfterTheAnswerHasBegun(t *testing.T) {
	to := &written{}
	c := &Conn{Conn: to}
	c.answering.Store(true)
	probe := func(want string) {
		t.Helper()
		if err := c.probe(); err != nil || to.String() != want {
			t.Errorf("%q, %v; want %q", to.String(), err, want)
		}
	}
	probe(interim)
	if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	probe(interim + "HTTP/1.1 200 OK\r\n\r\n")
}
