package server

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"agentd/internal/http/connection"
	"agentd/scheduler/generation"
)

// LoadHangs makes /health report, until the server is ready, that a step of the load is stuck.
func (s *Server) LoadHangs(e *generation.StuckError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Loading {
		s.hangs = e
	}
}

// State returns the current state.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Ready opens the server for work. It returns false if the server drains.
func (s *Server) Ready(i Inference) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Draining {
		return false
	}
	if s.state == Loading {
		s.stopWaiting()
	}
	s.state, s.inference, s.hangs = Ready, i, nil
	return true
}

// FailLoading makes the server refuse waiting and future requests, because the model cannot be loaded.
func (s *Server) FailLoading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Loading {
		s.stopWaiting()
		s.failed = true
	}
}

// stopWaiting ends the waits for the model. s.mu is held.
func (s *Server) stopWaiting() {
	if !s.failed { // else loaded is closed
		close(s.loaded)
	}
}

// admit counts a request in flight until s.end, if the server is ready. While the model loads, the request waits, see
// await. With computes, it also waits during a pause.
func (s *Server) admit(c *gin.Context, computes bool) (Inference, error) {
	for waited := false; ; waited = true {
		s.mu.Lock()
		i, loading := s.inference, s.state == Loading && !s.failed
		var err error
		switch {
		case loading:
			err = &Error{Code: CodeLoading}
		case s.state == Loading:
			err = &Error{Code: CodeNotLoaded}
		case s.state == Draining:
			err = &Error{Code: CodeDraining}
		default:
			s.inFlight++
		}
		s.mu.Unlock()
		if loading && !waited {
			if err = s.await(c, s.loaded, err); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		if w, ok := i.(Weights); ok && computes {
			refusal := &Error{Code: CodeBusy, Detail: "the server is paused, and its weights change", RetryAfter: retryLoading}
			if err := s.await(c, w.Resumed(), refusal); err != nil {
				s.end()
				return nil, err
			}
		}
		return i, nil
	}
}

// await waits for an event, for at most LoadingWait and with the body unread. Without the event it returns refusal.
func (s *Server) await(c *gin.Context, event <-chan struct{}, refusal error) error {
	select {
	case <-event:
		return nil
	default:
	}
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > maxWaiting || s.opts.LoadingWait <= 0 {
		return refusal
	}
	ctx, settle := connection.Caller(c.Request, true)
	defer func() { _ = settle() }()
	enough := time.NewTimer(s.opts.LoadingWait)
	defer enough.Stop()
	var err error
	select {
	case <-event:
	case <-enough.C:
		err = refusal
	case <-ctx.Done():
	}
	if cause := settle(); cause != nil {
		return ended(cause)
	}
	return err
}

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if s.state == Draining && s.inFlight == 0 {
		close(s.idle)
	}
}

// InFlight returns the number of requests between admit and end.
func (s *Server) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight
}

// within calls work with a context that ends when the client leaves, when the server cancels its work, and after limit
// if that is above 0. The error is the work's, or the reason why the client's context ended.
func within(c *gin.Context, limit time.Duration, work func(ctx context.Context) error) error {
	ctx, settle := connection.Caller(c.Request, false)
	defer func() { _ = settle() }()
	ctx = generation.ForClient(ctx, c.GetString(keyClient))
	timed := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		timed, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	err := work(timed)
	if cause := settle(); cause != nil {
		return ended(cause)
	}
	return err
}

// Drain refuses new work, ends a pause, and waits for work in flight, until ctx ends.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	if s.state != Draining {
		if s.state == Loading {
			s.stopWaiting()
		}
		s.state = Draining
		if s.inFlight == 0 {
			close(s.idle)
		}
	}
	paused, _ := s.inference.(Weights)
	s.mu.Unlock()
	if paused != nil {
		paused.Resume()
	}
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		select {
		case <-s.idle: // both may be true
			return nil
		default:
			return ctx.Err()
		}
	}
}

// CancelWork ends all current and future requests with 503. It is called after a Drain that took too long.
func (s *Server) CancelWork() { s.cancel(&Error{Code: CodeDraining}) }

// Serve serves connections on l until Shutdown or Close, after which it returns nil. It closes l.
func (s *Server) Serve(l net.Listener) error {
	s.loopback.Store(connection.IsLoopback(l.Addr().String()))
	return connection.Serve(s.http, l, s.opts.Certificates, func(status int, detail string) {
		s.metrics.requests.WithLabelValues(knownMethod(""), routeUnmatched, strconv.Itoa(status)).Inc()
		s.metrics.latency.WithLabelValues(knownMethod(""), routeUnmatched).Observe(0)
		s.opts.Log.Debug().Int("status", status).Str("detail", detail).Msg("invalid HTTP request")
	})
}

// Shutdown closes the listener and waits for idle connections. Call it after Drain.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Close cancels all work and closes the listener and all connections at once.
func (s *Server) Close() error {
	s.CancelWork()
	return s.http.Close()
}
