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

// ErrGone is why a caller's context ends when the client has left.
var ErrGone = errors.New("the client closed the connection before the answer")

// side is what is known of the other side of a connection.
type side int

const (
	open   side = iota
	silent      // it sends nothing more; it may still read
	gone
)

// Caller is a context for the work whose answer r's client waits for, in place of r's own.
// It ends when that client has left or the server breaks its work off, but not when the
// client has only closed its sending side, as shutdown(SHUT_WR) does. settle must be called
// before anything is written; it returns why the context ended, nil if it did not, and may be called again.
//
// The end of what a client sends looks the same in both cases: a closed socket shows only
// when something is sent to it, by a reset. So once there is such an end, the client is sent
// interim answers, 100 Continue, which a client of HTTP/1.1 skips (RFC 9110, 15.2), now and
// then until the work is done. HTTP/1.0 has none, so there the end counts as leaving.
//
// net/http looks at a connection only once the body has been read. With unread, Caller
// looks at it itself.
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

// watch looks at the client until it is gone or the work is done, and returns why the work
// should end: nil when it is done.
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

// probe sends what a client that still reads skips, and what a closed socket answers with a
// reset.
func (c *Conn) probe() error {
	_ = c.Conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	defer func() { _ = c.Conn.SetWriteDeadline(time.Time{}) }()
	_, err := c.Conn.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	return err
}

// peer looks at the other side without reading.
func (c *Conn) peer(r *http.Request) side {
	connection, ok := c.raw.(syscall.Conn)
	if !ok { // no socket: nobody but net/http knows
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
