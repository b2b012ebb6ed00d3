// Package connection handles connections below the HTTP handlers of server and console. It rewrites errors
// of net/http as JSON, and it distinguishes a client that has left from a half-closed one.
package connection

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	stdlog "log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// NewServer returns a server for Serve.
func NewServer(handler http.Handler, log zerolog.Logger) *http.Server {
	s := &http.Server{
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: MaxHeader,
		ErrorLog: stdlog.New(&errorLog{log: log, now: time.Now}, "", 0),
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := of(r); c != nil {
			c.answering.Store(true)
			c.setAnswered(false)
			if c.mayMislead(r) {
				w.Header().Set("Connection", "close")
			}
		}
		handler.ServeHTTP(w, r)
	})
	s.DisableGeneralOptionsHandler = true // only errors are answered without a handler
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		own := c.(*Conn)
		own.base = ctx
		return context.WithValue(ctx, connKey{}, own)
	}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if own, ok := c.(*Conn); ok && state == http.StateIdle {
			own.answering.Store(false)
			own.begun.Store(false)
			own.takeHead()
		}
	}
	return s
}

// Serve serves s on l until s ends, with HTTP/1 only, and over TLS if there are certificates. It closes l,
// and returns nil after Shutdown and Close. refused is called for every error that is answered without a handler.
func Serve(s *http.Server, l net.Listener, certificates []tls.Certificate, refused func(status int, detail string)) error {
	wrapped := &listener{Listener: l, maxHeader: s.MaxHeaderBytes, refused: refused}
	if len(certificates) > 0 {
		wrapped.tls = &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	if err := s.Serve(wrapped); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// listener accepts connections as *Conn.
type listener struct {
	net.Listener
	tls       *tls.Config // nil: plain
	maxHeader int
	refused   func(status int, detail string)
}

// Accept implements [net.Listener]. The connection's own goroutine does the TLS handshake with its
// first read.
func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: raw, raw: raw, listener: l}
	if l.tls != nil {
		c.Conn = tls.Server(raw, l.tls)
	}
	return c, nil
}

// Conn is an accepted connection.
type Conn struct {
	net.Conn          // over TLS if that is configured
	raw      net.Conn // the accepted connection
	listener *listener
	base     context.Context // the server's

	answering atomic.Bool // a handler is answering
	begun     atomic.Bool // bytes of the next request have arrived

	mu       sync.Mutex
	head     []byte // bytes read since the last request, before a handler runs; mu guards it
	answered bool   // the answer has begun; mu guards it
}

func (c *Conn) setAnswered(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = on
}

type connKey struct{}

// of returns the connection of a request, nil without Serve.
func of(r *http.Request) *Conn {
	c, _ := r.Context().Value(connKey{}).(*Conn)
	return c
}

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.answering.Load() {
		return n, err
	}
	if n > 0 {
		c.begun.Store(true)
		c.mu.Lock()
		c.head = append(c.head, p[:min(n, maxHead-len(c.head))]...)
		c.mu.Unlock()
	}
	switch {
	case err == nil:
	case isPlainHTTP(err):
		_ = c.refuse(c.raw, http.StatusBadRequest, "this port speaks HTTPS; use a URL that begins with https://")
	case errors.Is(err, os.ErrDeadlineExceeded) && c.begun.Load():
		_ = c.refuse(c.Conn, http.StatusRequestTimeout, "the request line and the headers did not arrive in time")
	}
	return n, err
}

// Write implements [net.Conn]. Bytes that are written while no handler runs are an error of net/http.
func (c *Conn) Write(p []byte) (int, error) {
	if c.answering.Load() {
		if string(p) != interim { // which net/http writes for Expect
			c.setAnswered(true) // not during a probe
		}
		return c.Conn.Write(p)
	}
	status, detail, ok := c.meaning(p)
	if !ok {
		return c.Conn.Write(p)
	}
	if err := c.refuse(c.Conn, status, detail); err != nil {
		return 0, err
	}
	return len(p), nil
}

// mayMislead reports whether a proxy may disagree about the end of the request's body: the head has both
// Transfer-Encoding and Content-Length, or Transfer-Encoding in HTTP/1.0. Such a connection must close
// after the answer (RFC 9112, 6.1 and 6.3). net/http removes the ignored header, so the head as it was read is
// examined. If the head arrived together with an earlier request, it is not known, and the result is true.
func (c *Conn) mayMislead(r *http.Request) bool {
	head := c.takeHead()
	old := !r.ProtoAtLeast(1, 1)
	if len(r.TransferEncoding) == 0 && !old {
		return false
	}
	head, _, whole := bytes.Cut(head, []byte("\r\n\r\n"))
	if !whole || !bytes.HasPrefix(head, []byte(r.Method+" "+r.RequestURI+" ")) {
		return true
	}
	head = bytes.ToLower(head)
	return bytes.Contains(head, []byte("\ntransfer-encoding:")) && (old || bytes.Contains(head, []byte("\ncontent-length:")))
}

func (c *Conn) takeHead() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	head := c.head
	c.head = nil
	return head
}

// CloseWrite closes the sending side.
func (c *Conn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Drain closes the sending side after an answer and reads for a while, since a client may still send an
// unreadable body. If the connection closed at once, it would be reset, and the client would not get the answer.
func Drain(r *http.Request) {
	if c := of(r); c != nil {
		c.drain(c.Conn)
	}
}

// drain closes the sending side, and reads for drainTime or drainBytes.
func (c *Conn) drain(to net.Conn) {
	_ = closeWrite(to) // the answer was written
	_ = c.raw.SetReadDeadline(time.Now().Add(drainTime))
	for buffer, n := make([]byte, 32<<10), 0; n < drainBytes; {
		read, err := c.raw.Read(buffer)
		if n += read; err != nil {
			return
		}
	}
}

// IsLoopback reports whether the value of a Host header is localhost or a loopback address.
func IsLoopback(host string) bool {
	ip, local := named(host)
	return ip.IsLoopback() || local
}

// IsAddress reports whether the value of a Host header is an IP address or localhost, which DNS can't point elsewhere.
func IsAddress(host string) bool {
	ip, local := named(host)
	return ip.IsValid() || local || host == ""
}

// named returns the IP address in the value of a Host header. local: it is localhost or a name below that.
func named(host string) (ip netip.Addr, local bool) {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, _ = netip.ParseAddr(strings.Trim(host, "[]"))
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return ip, host == "localhost" || strings.HasSuffix(host, ".localhost")
}
