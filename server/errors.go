package server

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"agentd/internal/connection"
	"agentd/internal/transfer"
	"agentd/protocol"

	"github.com/gin-gonic/gin"
)

// Code is a reason for an answer that is not a success.
type Code int

// The reasons, in the order of the table below.
const (
	CodeInternal Code = iota
	CodeInvalid
	CodeBrokenBody
	CodeUnauthorized
	CodeForbidden
	CodeNotFound
	CodeNoSession
	CodeMethodNotAllowed
	CodeSlowBody
	CodeConflict
	CodeTooLarge
	CodeMediaType
	CodeLoading
	CodeNotLoaded
	CodeDraining
	CodeBusy
	CodeCoachingUnavailable
	CodeUnreachable
	CodeClientGone
)

// statusClientGone marks, in logs and metrics only, a request whose client left
// before the answer.
const statusClientGone = 499

// codes is the one table from reasons to answers. The detail is what the client
// reads unless the error carries its own.
var codes = map[Code]struct {
	status int
	detail string
	retry  time.Duration
}{
	CodeInternal:            {http.StatusInternalServerError, "internal error; the server's log has the request id", 0},
	CodeInvalid:             {http.StatusUnprocessableEntity, "invalid request", 0},
	CodeBrokenBody:          {http.StatusBadRequest, "the body is not valid HTTP", 0},
	CodeUnauthorized:        {http.StatusUnauthorized, "a bearer token is required: send Authorization: Bearer <token>", 0},
	CodeForbidden:           {http.StatusForbidden, "this server answers programs, not pages in a browser, unless it asks for tokens (auth_token_file)", 0},
	CodeNotFound:            {http.StatusNotFound, "no such path; see /openapi.json", 0},
	CodeNoSession:           {http.StatusNotFound, "this run has no coaching session", 0},
	CodeMethodNotAllowed:    {http.StatusMethodNotAllowed, "method not allowed; see the Allow header", 0},
	CodeSlowBody:            {http.StatusRequestTimeout, "the request body did not arrive in time", 0},
	CodeConflict:            {http.StatusConflict, "this run has a coaching session with another configuration", 0},
	CodeTooLarge:            {http.StatusRequestEntityTooLarge, fmt.Sprintf("the request body is larger than %d bytes; send fewer inputs in each request", maxBody), 0},
	CodeMediaType:           {http.StatusUnsupportedMediaType, "send the body with the header Content-Type: application/json", 0},
	CodeLoading:             {http.StatusServiceUnavailable, "the model is still loading", retryLoading},
	CodeNotLoaded:           {http.StatusServiceUnavailable, "the model could not be loaded; the server's log has the reason", retryDraining},
	CodeDraining:            {http.StatusServiceUnavailable, "the server is shutting down", retryDraining},
	CodeBusy:                {http.StatusServiceUnavailable, "the queue is full", retryBusy},
	CodeCoachingUnavailable: {http.StatusServiceUnavailable, "specialized coaching is unavailable", 0},
	CodeUnreachable:         {http.StatusServiceUnavailable, "a coaching backend cannot be used", 0},
	CodeClientGone:          {http.StatusServiceUnavailable, "the client closed the connection before the answer", 0},
}

// Error is a reason with its particulars. Only Code is required.
type Error struct {
	Code       Code
	Detail     string            // replaces the table's sentence
	Problems   protocol.Problems // the detail of CodeInvalid
	RetryAfter time.Duration     // replaces the table's
	Err        error             // the cause: logged, never sent
}

func (e *Error) Error() string {
	detail := e.Detail
	if detail == "" {
		detail = codes[e.Code].detail
	}
	if e.Err != nil {
		return detail + ": " + e.Err.Error()
	}
	return detail
}

func (e *Error) Unwrap() error { return e.Err }

// asError finds the reason in err; what has none is internal.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var problems protocol.Problems
	if errors.As(err, &problems) {
		return &Error{Code: CodeInvalid, Problems: problems}
	}
	return &Error{Code: CodeInternal, Err: err}
}

// ended is the reason in the cause for which a request's context is over: the
// server gave up on its work, or its client left.
func ended(cause error) *Error {
	var e *Error
	if errors.As(cause, &e) {
		return e
	}
	return &Error{Code: CodeClientGone}
}

// fail answers the request with the reason in err and ends its handling.
func (s *Server) fail(c *gin.Context, err error) {
	e := asError(err)
	entry := codes[e.Code]
	c.Abort()
	switch e.Code {
	case CodeClientGone:
		// Whoever reads it after all, such as a client of HTTP/1.0 that has only
		// closed its sending side, must not take an empty answer for success.
		c.Set(keyStatus, statusClientGone)
	case CodeInternal:
		s.log.Error().Err(err).Str("request_id", c.GetString(keyRequestID)).Msg("request failed")
	case CodeUnauthorized:
		c.Header("WWW-Authenticate", `Bearer realm="agentd"`)
	case CodeTooLarge, CodeSlowBody, CodeBrokenBody:
		c.Header("Connection", "close") // the rest of the body is not worth reading
	}
	if retry := max(e.RetryAfter, entry.retry); retry > 0 {
		c.Header("Retry-After", strconv.Itoa(int(math.Ceil(retry.Seconds()))))
	}
	s.logRefusedSession(c, e)
	// Without it net/http gives up on a body when the answer begins.
	_ = http.NewResponseController(c.Writer).EnableFullDuplex()
	s.writeJSON(c, entry.status, errorBody(e, entry.detail))
	switch e.Code {
	case CodeClientGone:
	case CodeSlowBody, CodeBrokenBody: // the body has no end that could be waited for
		connection.Drain(c.Request)
	default:
		transfer.Linger(c)
	}
}

// errorBody is {"detail": …}: a list of problems for invalid input, a sentence
// for everything else.
func errorBody(e *Error, detail string) []byte {
	if len(e.Problems) > 0 {
		return e.Problems.AppendBody(nil)
	}
	if e.Detail != "" {
		detail = e.Detail
	}
	return protocol.AppendErrorBody(nil, detail)
}
