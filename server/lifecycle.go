package server

import (
	"context"
	"errors"
	"net"
	"time"

	"agentd/internal/connection"
	"agentd/protocol"

	"github.com/gin-gonic/gin"
)

// State is where a Server is in its life.
type State int

// The states, in the order a server passes through them.
const (
	Loading State = iota
	Ready
	Draining
)

func (s State) String() string {
	return [...]string{protocol.HealthLoading, protocol.HealthReady, protocol.HealthDraining}[s]
}

// Decider answers a decoded request with one output for every candidate.
//
// Decide returns protocol.Problems for input that only the agent can judge, an
// *Error for a reason of its own (CodeBusy), and ctx's error when ctx ended.
// Anything else is an internal error.
type Decider interface {
	Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error)
}

// Failing is what a Decider may be that can break for good. /health then answers
// 503 with the status failed, so that whoever watches it starts another process.
type Failing interface {
	// Failure is why, nil while requests can be decided.
	Failure() error
}

// failure is that of the decider, if it has one.
func (s *Server) failure() error {
	s.mu.Lock()
	f, ok := s.decider.(Failing)
	s.mu.Unlock()
	if !ok {
		return nil
	}
	return f.Failure()
}

// State reports the present state.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Ready opens the server for work. It has no effect on a draining server and
// reports whether the server is ready now.
func (s *Server) Ready(d Decider) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Draining {
		return false
	}
	if s.state == Loading {
		s.stopWaiting()
	}
	s.state, s.decider = Ready, d
	return true
}

// FailLoading says that the model cannot be loaded. Work that waits for it is
// refused at once, and so is what comes from now on.
func (s *Server) FailLoading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Loading {
		s.stopWaiting()
		s.failed = true
	}
}

// stopWaiting lets go who waits for the model. The lock is held.
func (s *Server) stopWaiting() {
	if !s.failed { // else it is done
		close(s.loaded)
	}
}

// admit takes one piece of work, to be ended with s.end, as begin does. While
// the model loads the work waits, with its body unread, as long as LoadingWait.
// Those that are too many are refused at once.
func (s *Server) admit(c *gin.Context) (Decider, error) {
	d, err := s.begin()
	if !isLoading(err) || s.opts.LoadingWait <= 0 {
		return d, err
	}
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > maxWaiting {
		return nil, err
	}
	ctx, settle := connection.Caller(c.Request, true)
	defer settle()
	enough := time.NewTimer(s.opts.LoadingWait)
	defer enough.Stop()
	select {
	case <-s.loaded:
	case <-enough.C:
	case <-ctx.Done():
	}
	if cause := settle(); cause != nil {
		return nil, ended(cause)
	}
	return s.begin()
}

func isLoading(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeLoading
}

// begin takes one piece of work, to be ended with s.end. It is refused unless
// the server is ready.
func (s *Server) begin() (Decider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failed && s.state == Loading:
		return nil, &Error{Code: CodeNotLoaded}
	case s.state == Loading:
		return nil, &Error{Code: CodeLoading}
	case s.state == Draining:
		return nil, &Error{Code: CodeDraining}
	}
	s.inFlight++
	return s.decider, nil
}

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if s.state == Draining && s.inFlight == 0 {
		close(s.idle)
	}
}

// InFlight is the number of requests being decided.
func (s *Server) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight
}

// Drain refuses new work from now on and waits until the work in flight has
// finished or ctx ends, whose error it then returns.
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
	s.mu.Unlock()
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

// CancelWork ends the contexts of all requests, present and future, which are
// then answered 503. It is for work that outlasts the drain.
func (s *Server) CancelWork() { s.cancel(&Error{Code: CodeDraining}) }

// Serve accepts connections on l until Shutdown or Close. It always closes l
// and returns nil after those two.
func (s *Server) Serve(l net.Listener) error {
	return connection.Serve(s.http, l, s.opts.Certificates, func(status int, detail string) {
		s.metrics.request(knownMethod(""), routeUnmatched, status, 0)
		s.log.Debug().Int("status", status).Str("detail", detail).Msg("what came is no request")
	})
}

// Shutdown closes the listener and waits for connections to become idle. Call
// it after Drain, so that clients are told to go elsewhere until the end.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Close cancels all work and closes listener and connections at once.
func (s *Server) Close() error {
	s.CancelWork()
	return s.http.Close()
}
