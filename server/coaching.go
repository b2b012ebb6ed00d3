package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"agentd/coaching"
	"agentd/internal/http/connection"
	"agentd/internal/http/transfer"
	"agentd/protocol"
)

func (s *Server) putSession(c *gin.Context) {
	s.coachingWork(c, func(ctx context.Context) ([]byte, error) {
		runID, err := pathRunID(c)
		body, share, unread := s.readBody(c, looseCopies)
		defer share.Release()
		if unread != nil {
			return nil, unread
		}
		cfg, invalid := protocol.DecodeCoachingSessionConfig(body)
		if err = bothProblems(err, invalid); err != nil {
			return nil, err
		}
		if s.opts.Coach == nil {
			return nil, s.noCoaching()
		}
		configure := s.opts.Coach.Configure
		if forMagma(c) {
			configure = s.opts.Coach.ConfigureReachable
		}
		return nil, configure(ctx, runID, cfg)
	})
}

// postCoaching answers a request for a repair. A person may answer, so it has no timeout.
func (s *Server) postCoaching(c *gin.Context) {
	s.coachingWork(c, func(ctx context.Context) ([]byte, error) {
		body, share, err := s.readBody(c, 0)
		defer share.Release()
		if err != nil {
			return nil, err
		}
		req, held, err := protocol.DecodeWithin[protocol.SpecializedCoachingRequest](body, protocol.MaxDepth, share.Add)
		if err != nil {
			return nil, err
		}
		c.Set(keyCoachingRequest, req)
		// A person may keep it waiting for hours, and it stays in memory.
		if err := share.Hold(int64(held) * coachingCopies); err != nil {
			return nil, err
		}
		if s.opts.Coach == nil {
			return nil, s.noCoaching()
		}
		resp, err := s.opts.Coach.Coach(ctx, req)
		if err != nil {
			return nil, err
		}
		if err := resp.Validate(req); err != nil {
			// No client gets a malformed answer, not even one by a bug.
			return nil, &Error{Code: CodeInternal, Err: fmt.Errorf("coaching response is invalid: %w", err)}
		}
		return resp.AppendJSON(nil), nil
	})
}

// coachingWork calls work. If coaching is on, a draining server refuses it and a loading one delays it.
func (s *Server) coachingWork(c *gin.Context, work func(context.Context) ([]byte, error)) {
	if s.opts.Coach != nil {
		if _, err := s.admit(c, false); err != nil {
			s.fail(c, err)
			return
		}
		defer s.end()
	}
	s.answerCoaching(c, work)
}

// deleteSession closes a session in any state of the server: it lets a draining one end sooner.
func (s *Server) deleteSession(c *gin.Context) {
	s.answerCoaching(c, func(ctx context.Context) ([]byte, error) {
		runID, err := pathRunID(c)
		switch {
		case s.opts.Coach == nil:
			return nil, s.noCoaching()
		case err != nil:
			return nil, err
		}
		err = s.opts.Coach.CloseSession(ctx, runID)
		if forMagma(c) && errors.Is(err, coaching.ErrUnknown) {
			err = nil // its clients also close sessions that they failed to configure
		}
		return nil, err
	})
}

// answerCoaching answers with the body that work returns, or with 204 if it is nil.
func (s *Server) answerCoaching(c *gin.Context, work func(context.Context) ([]byte, error)) {
	ctx, settle := connection.Caller(c.Request, false)
	defer func() { _ = settle() }()
	body, err := work(ctx)
	cause := settle()
	switch {
	case err != nil && cause != nil:
		s.fail(c, ended(cause))
	case err != nil:
		s.fail(c, err)
	case body != nil:
		s.sent(c, transfer.SendJSON(c, http.StatusOK, body))
	default:
		c.Status(http.StatusNoContent)
		c.Writer.WriteHeaderNow()
	}
}

func (s *Server) noCoaching() error {
	return &Error{Code: CodeCoachingUnavailable, Detail: s.opts.Info.CoachingUnavailableReason}
}

// bothProblems joins the problems of a path and of a body.
func bothProblems(path, body error) error {
	var both, more protocol.Problems
	if errors.As(path, &both) && errors.As(body, &more) {
		both.AddAll(more)
		return both
	}
	return cmp.Or(path, body)
}
