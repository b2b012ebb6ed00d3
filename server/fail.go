package server

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"agentd/internal/base/clip"
	"agentd/internal/http/transfer"
	"agentd/protocol"
	"agentd/server/openai"
)

// fail answers the request with the error err, see asError, and ends its handling.
func (s *Server) fail(c *gin.Context, err error) {
	e := asError(err)
	c.Abort()
	switch e.Code {
	case CodeClientGone:
		c.Set(keyStatus, statusClientGone)
	case CodeInternal, CodeStoreDown:
		s.opts.Log.Error().Err(err).Str("request_id", c.GetString(keyRequestID)).Msg("request failed")
	case CodeUnauthorized:
		c.Header("WWW-Authenticate", `Bearer realm="agentd"`)
		if c.GetHeader("Authorization") != "" {
			e.Detail = "the header Authorization has no token that this server knows; send Authorization: Bearer <token>"
		}
	}
	c.Set(keyReason, e.logged())
	s.logRefusedCoaching(c, e)
	var body []byte
	switch {
	case c.GetBool(keyOpenAI):
		body = openai.AppendError(e.Code.status, e.detail(), e.Param)
	case len(e.Problems) > 0 && e.Problems[0].Msg == otherAPI:
		body = inBothForms(e.Problems.AppendBody(nil), openai.AppendError(CodeUnsupported.status, otherAPI, "input"))
	case len(e.Problems) == 0 && openAIPaths.MatchString(c.Request.URL.Path):
		// keyOpenAI is not set before a request is allowed.
		body = inBothForms(protocol.AppendErrorBody(nil, e.detail()), openai.AppendError(e.Code.status, e.detail(), ""))
	}
	s.sent(c, transfer.SendError(c, &transfer.ErrorAnswer{
		Status:     e.Code.status,
		Detail:     e.detail(),
		Body:       body,
		Problems:   e.Problems,
		RetryAfter: max(e.RetryAfter, e.Code.retry),
		Rest:       e.Code.rest,
	}))
}

// inBothForms joins the bodies of an error in the protocol's form and in OpenAI's, whose clients show error.message only.
func inBothForms(ours, openAIs []byte) []byte {
	return append(append(ours[:len(ours)-1], ','), openAIs[1:]...)
}

// openAIPaths match the paths of OpenAI's API, served or not, that no path of the protocol begins like. A wrong base URL
// has no /v1, or two.
var openAIPaths = regexp.MustCompile(`^((/v1){0,2}/(chat|completions|models|embeddings|images|audio|moderations|` +
	`files|batches)|(/v1/v1)?/responses)(/|$)`)

// sent logs the error err of a client that did not read its answer.
func (s *Server) sent(c *gin.Context, err error) {
	if err != nil {
		c.Set(keyReason, cmp.Or(c.GetString(keyReason), "the client did not read its answer"))
		s.opts.Log.Debug().Err(err).Str("request_id", c.GetString(keyRequestID)).Msg("answer not sent")
	}
}

// logRefusedCoaching logs why a session or a repair was refused, which clients do not
// show. Requests without a token are not warnings, since anyone can send them.
func (s *Server) logRefusedCoaching(c *gin.Context, e *Error) {
	message, runID, kind, level := "", "", "", zerolog.InfoLevel
	switch c.Request.Method + " " + strings.TrimPrefix(c.FullPath(), basePath(c)) {
	case "PUT " + pathSessions + ":run_id":
		message = "coaching session refused"
		runID, _ = pathRunID(c) // the reason has its error
		if e.Code != CodeUnauthorized && e.Code != CodeForbidden {
			level = zerolog.WarnLevel
		}
	case "POST " + pathCoaching:
		message = "coaching refused"
		if req, ok := c.Get(keyCoachingRequest); ok {
			runID, kind = req.(*protocol.SpecializedCoachingRequest).RunID, req.(*protocol.SpecializedCoachingRequest).Kind
		}
	}
	if message == "" || e.Code == CodeInternal || e.Code == CodeClientGone { // the one is logged elsewhere, the other refuses nothing
		return
	}
	event := s.opts.Log.WithLevel(level).Str("run_id", clip.Text(runID, maxLogID))
	if kind != "" {
		event.Str("kind", kind)
	}
	event.
		Int("status", e.Code.status).
		Str("reason", e.reason()).
		Str("request_id", c.GetString(keyRequestID)).
		Msg(message)
}

// pathRunID returns the unescaped run_id in the path; all characters are allowed. The error is protocol.Problems.
func pathRunID(c *gin.Context) (string, error) {
	// Gin's own parameter decodes + as a space in a path with escapes.
	path := strings.TrimPrefix(c.Request.URL.EscapedPath(), basePath(c)+pathSessions)
	runID, err := url.PathUnescape(path)
	problem := func(msg string) error {
		return protocol.Problems{{Type: protocol.TypeValue, Loc: []any{"path", "run_id"}, Msg: msg}}
	}
	switch {
	case err != nil:
		return "", problem("has an invalid escape; write a percent sign and two hexadecimal digits")
	case !utf8.ValidString(runID):
		return "", problem("is not valid UTF-8, so no request could name this run")
	case len(runID) > maxRunID:
		return "", problem(fmt.Sprintf("has %d bytes; at most %d are allowed", len(runID), maxRunID))
	}
	return runID, nil
}
