package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"agentd/coaching"
	"agentd/protocol"
	"agentd/server/internal/connection"

	"github.com/gin-gonic/gin"
)

// Coach holds the coaching sessions and answers their requests:
// *coaching.Service, with its errors, or a fake in tests.
type Coach interface {
	Configure(ctx context.Context, runID string, cfg *protocol.CoachingSessionConfig) error
	Coach(ctx context.Context, req *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error)
	CloseSession(ctx context.Context, runID string) error
}

// putSession configures a run's session.
func (s *Server) putSession(c *gin.Context) {
	s.coachingWork(c, func(ctx context.Context) ([]byte, error) {
		runID, err := pathRunID(c)
		body, release, unread := s.readBody(c)
		if unread != nil {
			return nil, unread
		}
		defer release()
		cfg, invalid := protocol.DecodeCoachingSessionConfig(body)
		if err = bothProblems(err, invalid); err != nil {
			return nil, err
		}
		if s.opts.Coach == nil {
			return nil, s.noCoaching()
		}
		return nil, s.opts.Coach.Configure(ctx, runID, cfg)
	})
}

// postCoaching asks for the repair of a step. It may take as long as a person
// does: neither the request timeout nor a deadline of the connection ends it.
func (s *Server) postCoaching(c *gin.Context) {
	s.coachingWork(c, func(ctx context.Context) ([]byte, error) {
		body, release, err := s.readBody(c)
		if err != nil {
			return nil, err
		}
		req, err := protocol.DecodeSpecializedCoachingRequest(body)
		release() // the coach bounds what waits, perhaps for hours, by itself
		if err != nil {
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
			// Never a malformed answer, even for our own bugs.
			return nil, &Error{Code: CodeInternal, Err: fmt.Errorf("coaching response is invalid: %w", err)}
		}
		return resp.AppendJSON(nil), nil
	})
}

// coachingWork does a piece of work that a draining server refuses, and that
// waits while the model loads. Where coaching is switched off there is none, so
// the state does not matter.
func (s *Server) coachingWork(c *gin.Context, work func(context.Context) ([]byte, error)) {
	if s.opts.Coach != nil {
		if _, err := s.admit(c); err != nil {
			s.fail(c, err)
			return
		}
		defer s.end()
	}
	s.answerCoaching(c, work)
}

// deleteSession closes a run's session, in any state of the server: a client
// that gives back what it took helps one that is draining.
func (s *Server) deleteSession(c *gin.Context) {
	s.answerCoaching(c, func(ctx context.Context) ([]byte, error) {
		runID, err := pathRunID(c)
		switch {
		case s.opts.Coach == nil:
			return nil, s.noCoaching()
		case err != nil:
			return nil, err
		}
		return nil, s.opts.Coach.CloseSession(ctx, runID)
	})
}

// answerCoaching answers with the body that work makes, or with 204 when it
// makes none.
func (s *Server) answerCoaching(c *gin.Context, work func(context.Context) ([]byte, error)) {
	ctx, settle := connection.Caller(c.Request, false)
	defer settle()
	body, err := work(ctx)
	cause := settle()
	switch {
	case err != nil && cause != nil:
		s.fail(c, ended(cause))
	case err != nil:
		s.fail(c, coachingError(err))
	case body != nil:
		s.writeJSON(c, http.StatusOK, body)
	default:
		c.Status(http.StatusNoContent)
		c.Writer.WriteHeaderNow()
	}
}

func (s *Server) noCoaching() error {
	return &Error{Code: CodeCoachingUnavailable, Detail: s.opts.Info.CoachingUnavailableReason}
}

// pathRunID is the run_id of the path, with its escapes resolved: it may hold
// any character, a slash too. The error is protocol.Problems.
func pathRunID(c *gin.Context) (string, error) {
	// Gin's own parameter reads + as a space once the path holds an escape.
	runID, err := url.PathUnescape(strings.TrimPrefix(c.Request.URL.EscapedPath(), pathSessions))
	problem := func(msg string) error {
		return protocol.Problems{{Type: protocol.TypeValue, Loc: []any{"path", "run_id"}, Msg: msg}}
	}
	switch {
	case err != nil:
		return "", problem("has an escape that is none; write it as a percent sign and two hexadecimal digits")
	case !utf8.ValidString(runID):
		return "", problem("is not UTF-8; no request could name this run")
	case len(runID) > maxRunID:
		return "", problem(fmt.Sprintf("has %d bytes; at most %d are allowed", len(runID), maxRunID))
	}
	return runID, nil
}

// bothProblems joins the problems of a path and of a body.
func bothProblems(path, body error) error {
	var first, more protocol.Problems
	if errors.As(path, &first) && errors.As(body, &more) {
		both := append(first, more...)
		return both[:min(len(both), protocol.MaxProblems)]
	}
	if path != nil {
		return path
	}
	return body
}

// coachingError is the reason for an answer that is not a success in an error of
// a Coach.
func coachingError(err error) error {
	var full *coaching.FullError
	switch {
	case errors.Is(err, coaching.ErrUnknown):
		return &Error{Code: CodeNoSession, Detail: coaching.ErrUnknown.Error()}
	case errors.Is(err, coaching.ErrConflict):
		return &Error{Code: CodeConflict, Detail: err.Error()}
	case errors.As(err, &full):
		return &Error{Code: CodeBusy, Detail: full.What, RetryAfter: full.RetryAfter}
	case errors.Is(err, coaching.ErrShutdown):
		return &Error{Code: CodeDraining}
	}
	return err
}
