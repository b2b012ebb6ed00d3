package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"agentd/internal/base/retry"
	"agentd/internal/base/tracing"
	"agentd/scheduler/generation"
)

// newClient makes a client that follows no redirect. closed, if set, is called when a connection closes.
func newClient(connections int, closed func()) *http.Client {
	dialer := &net.Dialer{Timeout: connectTimeout}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: nil,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := dialer.DialContext(ctx, network, address)
				if err != nil || closed == nil {
					return c, err
				}
				return &watchedConn{c, closed}, nil
			},
			MaxConnsPerHost:     connections,
			MaxIdleConnsPerHost: connections,
			IdleConnTimeout:     30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// watchedConn reports its end.
type watchedConn struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *watchedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// sent is what one HTTP call sends, and how its answer is read.
type sent struct {
	client       *http.Client
	method, path string
	body         []byte
	limit        int64 // bytes of the answer
	session      string
	moves        func() // called for each part of the answer; nil: not called
}

// get reads a small answer.
func (e *Engine) get(ctx context.Context, r *replica, path string) ([]byte, error) {
	return e.small(ctx, r, sent{client: e.client, method: http.MethodGet, path: path}, e.limits.describe)
}

// small makes a call with a small answer within a time. An answer that does not come, or not as
// a whole, is an *errUnreachable.
func (e *Engine) small(ctx context.Context, r *replica, s sent, within time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, &silence{within})
	defer cancel()
	s.limit = bytesOfAnswer
	text, err := e.exchange(ctx, r, s)
	switch {
	case err != nil && ctx.Err() != nil:
		return text, &errUnreachable{context.Cause(ctx)}
	case errors.Is(err, errBroken):
		return nil, &errUnreachable{err}
	}
	return text, err
}

// post makes a call of a request. It ends when the engine is found to make no progress.
func (e *Engine) post(ctx context.Context, r *replica, path string, body []byte, limit int64, session string) ([]byte, error) {
	life, moved, end := r.begin()
	defer end()
	began := time.Now()
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	text, err := e.exchange(both, r, sent{e.client, http.MethodPost, path, body, limit, session, r.moves})
	switch {
	case err == nil:
		return text, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.failed("timeout")
		e.late(r, moved, time.Since(began))
		return nil, &generation.LateError{Engine: r.url}
	case ctx.Err() != nil: // the caller left, which is not the engine's fault
		return nil, err
	case life.Err() != nil:
		err = &errUnreachable{context.Cause(life)}
	}
	r.failed(kindOf(err))
	return nil, err
}

func kindOf(err error) string {
	var unreachable *errUnreachable
	var busy *generation.BusyError
	switch {
	case errors.As(err, &unreachable):
		return "unreachable"
	case errors.As(err, &busy):
		return "busy"
	}
	return "status"
}

// errBroken is wrapped where a connection ended within an answer, and errStalled where one stays
// open without a byte.
var (
	errBroken  = errors.New("the answer broke off")
	errStalled = errors.New("the answer stopped")
)

// StatusError is an error answer of an engine.
type StatusError struct {
	Status int
	Text   string
}

func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Text) }

// refusesKey reports whether err is an answer that wants another key.
func refusesKey(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden)
}

// silence is the error of a call without an answer.
type silence struct{ within time.Duration }

func (s *silence) Error() string { return fmt.Sprintf("no answer within %v", s.within) }

// moving is the body of an answer that must go on.
type moving struct {
	io.Reader
	moves func()
	timer *time.Timer // ends the call
	limit time.Duration
}

// Read implements io.Reader.
func (m *moving) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if n > 0 {
		m.timer.Reset(m.limit)
		if m.moves != nil {
			m.moves()
		}
	}
	return n, err
}

func (e *Engine) exchange(ctx context.Context, r *replica, s sent) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, s.method, r.url+s.path, bytes.NewReader(s.body))
	if err != nil {
		return nil, err
	}
	if s.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key)
	}
	if s.session != "" {
		req.Header.Set("X-Session-Id", s.session)
	}
	tracing.Inject(ctx, req.Header)
	res, err := s.client.Do(req)
	if err != nil {
		return nil, &errUnreachable{err}
	}
	defer res.Body.Close()
	if s.client == r.probes {
		r.closes.Store(res.Close)
	}
	body := &moving{res.Body, s.moves, time.AfterFunc(e.limits.stall, func() { cancel(errStalled) }), e.limits.stall}
	defer body.timer.Stop()
	text, err := io.ReadAll(io.LimitReader(body, s.limit+1))
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errStalled):
		return nil, &errUnreachable{fmt.Errorf("%w for %v", errStalled, e.limits.stall)}
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	case int64(len(text)) > s.limit:
		return nil, fmt.Errorf("the answer has more than %d bytes", s.limit)
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable:
		return text, &generation.BusyError{Reason: "the engine at " + r.url + " is busy", RetryAfter: min(cmp.Or(retry.After(res.Header, time.Now()), defaultRetryAfter), time.Minute)}
	case res.StatusCode != http.StatusOK:
		return text, &StatusError{res.StatusCode, errorOf(text)}
	}
	return text, nil
}
