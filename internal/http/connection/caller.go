package connection

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone is the cause with which a caller's context ends after the client has left.
var ErrGone = errors.New("the client closed the connection before the answer")

// side is the state of the other side of a connection.
type side int

const (
	open   side = iota
	silent      // half-closed: it sends nothing more, and may still read
	gone        // closed or reset
)

// Caller returns a context for the work on r. It ends when the client has left, or when the server cancels its work,
// but not when the client only closes its sending side. settle must be called at the end of the work. It returns the
// cause of the context's end, nil if it has not ended, and may be called again.
//
// To a reader both cases are an end of file, but a closed socket answers a write with a reset. So Caller sends interim
// answers, 100 Continue, until the answer begins. HTTP/1.0 has none (RFC 9110, 15.2): there, such a client counts as
// gone. net/http watches a connection only after the body was read; with unread, Caller watches it itself.
func Caller(r *http.Request, unread bool) (ctx context.Context, settle func() error) {
	c := of(r)
	if c == nil { // not through Serve
		return r.Context(), func() error { return context.Cause(r.Context()) }
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	done, watched := make(chan struct{}), make(chan struct{})
	watch := func() {
		defer close(watched)
		if cause := c.watch(r, done); cause != nil {
			cancel(cause)
		}
	}
	stop := func() bool { return false }
	if unread {
		go watch()
	} else {
		stop = context.AfterFunc(r.Context(), watch)
	}
	return ctx, sync.OnceValue(func() error {
		close(done)
		if !stop() {
			<-watched
		}
		cause := context.Cause(ctx)
		cancel(context.Canceled)
		return cause
	})
}

// watch polls the client until it is gone or the work is done. It returns the reason why the work
// should end, nil if it is done.
func (c *Conn) watch(r *http.Request, done <-chan struct{}) error {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		now := c.peer(r)
		if now == silent && (!r.ProtoAtLeast(1, 1) || c.probe() != nil) {
			now = gone
		}
		if now == gone {
			return ErrGone
		}
		select {
		case <-done:
			return nil
		case <-c.base.Done():
			return context.Cause(c.base)
		case <-time.After(pause):
		}
	}
}

// interim is the interim answer that probe sends.
const interim = "HTTP/1.1 100 Continue\r\n\r\n"

// probe sends an interim answer. A client that still reads ignores it; a closed socket answers with a
// reset. Once a streamed answer has begun, its parts have the same effect.
func (c *Conn) probe() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered {
		return nil
	}
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout))
	defer func() { _ = c.SetWriteDeadline(time.Time{}) }()
	_, err := c.Conn.Write([]byte(interim))
	return err
}

// peer returns the state of the other side without reading.
func (c *Conn) peer(r *http.Request) side {
	connection, ok := c.raw.(syscall.Conn)
	if !ok { // no socket: only net/http knows
		if r.Context().Err() != nil {
			return gone
		}
		return open
	}
	socket, err := connection.SyscallConn()
	if err != nil {
		return gone
	}
	looked := []unix.PollFd{{Events: unix.POLLRDHUP}}
	err = socket.Control(func(fd uintptr) {
		looked[0].Fd = int32(fd)
		for {
			if _, err := unix.Poll(looked, 0); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	switch events := looked[0].Revents; {
	case err != nil, events&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0:
		return gone
	case events&unix.POLLRDHUP != 0:
		return silent
	}
	return open
}
