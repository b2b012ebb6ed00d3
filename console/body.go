package console

import (
	"errors"
	"net/http"

	"agentd/internal/budget"
	"agentd/internal/transfer"
	"agentd/protocol"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// jsonBody refuses a body whose headers declare something other than JSON.
func (c *Console) jsonBody(g *gin.Context) {
	if err := transfer.Declared(g.Request); err != nil {
		c.fail(g, bodyFailure(err))
	}
}

// readBody reads a body to its end. What the request holds counts in share, which is to be released
// when the request has ended.
func (c *Console) readBody(g *gin.Context, limit int64) (body []byte, share *budget.Share, err error) {
	share = c.memory.Share()
	body, err = transfer.ReadBody(g, limit, share)
	if err == nil {
		err = share.Add(int64(len(body)) * bodyCopies)
	}
	if err != nil {
		share.Release()
		err = bodyFailure(err)
	}
	return body, share, err
}

// bodyFailure maps an error of transfer to its answer.
func bodyFailure(err error) error {
	switch {
	case errors.Is(err, transfer.ErrTooLarge):
		return errTooLarge
	case errors.Is(err, budget.ErrFull):
		return errNoMemory
	case errors.As(err, new(*budget.TooLargeError)):
		return fail(http.StatusRequestEntityTooLarge, "%s", err)
	case errors.Is(err, transfer.ErrSlow):
		return errSlowBody
	case errors.Is(err, transfer.ErrBroken):
		return fail(http.StatusBadRequest, "%s", err).leaving(transfer.RestDrain)
	case errors.Is(err, transfer.ErrMediaType):
		return errMediaType
	case errors.Is(err, transfer.ErrEncoding), errors.Is(err, transfer.ErrNotGzip):
		return errEncoding
	}
	return errClientGone
}

// body is a body of the people's API. It validates itself.
type body interface{ check() error }

// read reads a body of the people's API into b. It answers an invalid request itself.
func (c *Console) read(g *gin.Context, b body) bool {
	raw, share, err := c.readBody(g, maxPeopleBody)
	if err == nil {
		defer share.Release()
		err = decode(raw, b)
	}
	if err != nil {
		c.fail(g, err)
		return false
	}
	return true
}

// decode parses JSON as strictly as package protocol.
func decode(raw []byte, b body) error {
	var problems protocol.Problems
	if errors.As(protocol.Unmarshal(raw, b, json.RejectUnknownMembers(true)), &problems) {
		return invalid(problems...)
	}
	return b.check()
}

// writeJSON sends a complete answer.
func (c *Console) writeJSON(g *gin.Context, status int, v any) {
	// A panic's text may have invalid UTF-8. Texts of agents were checked.
	body, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		c.fail(g, err)
		return
	}
	c.writeBytes(g, status, body)
}

// writeBytes sends JSON.
func (c *Console) writeBytes(g *gin.Context, status int, body []byte) {
	c.sent(g, transfer.SendJSON(g, status, body))
}

// sent logs an answer whose client did not read it.
func (c *Console) sent(g *gin.Context, err error) {
	if err != nil {
		c.log.Debug().Err(err).Str("request_id", g.GetString(keyRequestID)).Msg("answer not sent")
	}
}

// empty answers 204.
func (c *Console) empty(g *gin.Context) {
	g.Status(http.StatusNoContent)
	g.Writer.WriteHeaderNow()
}

// fail answers the request with the reason in err and ends its handling.
func (c *Console) fail(g *gin.Context, err error) {
	f := asFailure(err)
	g.Abort()
	if f.err != nil {
		c.log.Error().Err(f.err).Int("status", f.Status).Str("request_id", g.GetString(keyRequestID)).Msg("request failed")
	}
	c.sent(g, transfer.SendError(g, &f.ErrorAnswer))
}
