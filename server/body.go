package server

import (
	"errors"

	"agentd/internal/transfer"

	"github.com/gin-gonic/gin"
)

// jsonBody refuses bodies that are declared to be something other than JSON,
// plain or gzipped.
func (s *Server) jsonBody(c *gin.Context) {
	err := transfer.Declared(c.Request)
	if errors.Is(err, transfer.ErrEncoding) {
		c.Header("Accept-Encoding", "gzip")
	}
	if err != nil {
		s.fail(c, bodyError(err))
	}
}

// readBody reads the request body to its end. Until release is called it counts among the
// bodies in work.
func (s *Server) readBody(c *gin.Context) (body []byte, release func(), err error) {
	body, release, err = transfer.ReadBody(c, maxBody, s.bodies)
	if err != nil {
		err = bodyError(err)
	}
	return body, release, err
}

// bodyError is the reason in an error of transfer.
func bodyError(err error) error {
	switch {
	case errors.Is(err, transfer.ErrTooLarge):
		return &Error{Code: CodeTooLarge}
	case errors.Is(err, transfer.ErrNoRoom):
		return &Error{Code: CodeBusy, Detail: err.Error()}
	case errors.Is(err, transfer.ErrSlow):
		return &Error{Code: CodeSlowBody}
	case errors.Is(err, transfer.ErrBroken):
		return &Error{Code: CodeBrokenBody, Detail: err.Error()}
	case errors.Is(err, transfer.ErrMediaType):
		return &Error{Code: CodeMediaType}
	case errors.Is(err, transfer.ErrEncoding):
		return &Error{Code: CodeMediaType, Detail: "send the body plain or with Content-Encoding: gzip"}
	case errors.Is(err, transfer.ErrNotGzip):
		return &Error{Code: CodeMediaType, Detail: err.Error()}
	}
	return &Error{Code: CodeClientGone, Err: err}
}

// writeJSON sends a complete JSON answer. All answers but /metrics go through
// here.
func (s *Server) writeJSON(c *gin.Context, status int, body []byte) {
	if err := transfer.SendJSON(c, status, body); err != nil {
		s.log.Debug().Err(err).Str("request_id", c.GetString(keyRequestID)).Msg("the answer could not be sent")
	}
}
