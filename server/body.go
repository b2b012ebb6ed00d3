package server

import (
	"errors"

	"github.com/gin-gonic/gin"

	"agentd/internal/base/budget"
	"agentd/internal/http/transfer"
)

// readBody reads the request body to its end. share counts the body and that many copies of its text; it must be
// released when the request has ended.
func (s *Server) readBody(c *gin.Context, copies int64) (body []byte, share *budget.Share, err error) {
	share = s.memory.Share()
	body, err = transfer.ReadBody(c, maxBody, share)
	if err == nil {
		err = share.Add(int64(len(body)) * copies)
	}
	if err != nil {
		share.Release()
		err = bodyError(err)
	}
	return body, share, err
}

// bodyError returns the Error for an error of package transfer.
func bodyError(err error) error {
	switch {
	case errors.Is(err, transfer.ErrTooLarge):
		return &Error{Code: CodeTooLarge}
	case errors.Is(err, budget.ErrFull), errors.As(err, new(*budget.TooLargeError)):
		return err
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
