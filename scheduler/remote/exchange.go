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

// newClient makes a client that does not follow redirects. closed, if set, is called when a connection closes.
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

// watchedConn calls closed when it is closed.
type watchedConn struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *watchedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// sent describes one HTTP request, and how its answer is read.
type sent struct {
	client       *http.Client
	method, path string
	body         []byte
	limit        int64  // bytes of the answer
	session      string // for routers, "" for none
	received     func() // called for each part of the answer; may be nil
}

// small makes a request with a small answer and a timeout. The error is an *errUnreachable without a complete answer.
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

// post makes a call for completions. It ends with an *errUnreachable if the engine is found silent or unfit.
func (e *Engine) post(ctx context.Context, r *replica, path string, body []byte, limit int64, session string) ([]byte, error) {
	life, received, end := r.begin()
	defer end()
	began := time.Now()
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	text, err := e.exchange(both, r, sent{e.client, http.MethodPost, path, body, limit, session, r.receivePart})
	switch {
	case err == nil:
		return text, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.failed("timeout")
		e.late(r, received, time.Since(began))
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
	switch {
	case errors.As(err, new(*errUnreachable)):
		return "unreachable"
	case errors.As(err, new(*generation.BusyError)):
		return "busy"
	}
	return "status"
}

// errBroken is wrapped if a connection ended within an answer, and errStalled if it stays open without another byte.
var (
	errBroken  = errors.New("the answer broke off")
	errStalled = errors.New("the answer stopped")
)

// StatusError is an answer with an error status.
type StatusError struct {
	Status int    // HTTP status
	Text   string // the message in the body
}

func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Text) }

// refusesKey reports whether err is an answer with status 401 or 403.
func refusesKey(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden)
}

// silence is the error of a request that had no answer in time.
type silence struct{ within time.Duration }

func (s *silence) Error() string { return fmt.Sprintf("no answer within %v", s.within) }

// timedBody is the body of an answer. It ends the request if no part comes within limit.
type timedBody struct {
	io.Reader
	received func()      // see sent
	timer    *time.Timer // ends the request
	limit    time.Duration
}

// Read implements io.Reader.
func (m *timedBody) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if n > 0 {
		m.timer.Reset(m.limit)
		if m.received != nil {
			m.received()
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
	body := &timedBody{res.Body, s.received, time.AfterFunc(e.limits.stall, func() { cancel(errStalled) }), e.limits.stall}
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
