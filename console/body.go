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

// handler handles a request and returns its answer; nil is 204.
type handler func(g *gin.Context) (any, error)

// handle makes a handler of gin's.
func (c *Console) handle(h handler) gin.HandlerFunc {
	return func(g *gin.Context) {
		answer, err := h(g)
		var body []byte
		if err == nil && answer != nil {
			// A panic's text may have invalid UTF-8. Texts of agents were checked.
			body, err = json.Marshal(answer, jsontext.AllowInvalidUTF8(true))
		}
		switch {
		case err != nil:
			c.fail(g, err)
		case answer == nil:
			g.Status(http.StatusNoContent)
			g.Writer.WriteHeaderNow()
		default:
			c.sent(g, transfer.SendJSON(g, http.StatusOK, body))
		}
	}
}

// change is the handler of a change to the task that a path names.
func change[B any](c *Console, do func(seq uint64, body *B) (any, error)) gin.HandlerFunc {
	return c.handle(func(g *gin.Context) (any, error) {
		seq, err := seqOf(g.Param("id"))
		body := new(B)
		if err == nil {
			err = c.read(g, body)
		}
		if err != nil {
			return nil, err
		}
		return do(seq, body)
	})
}

// about is the handler of a question about a task, or its answer, that needs its view.
func about[B any](c *Console, do func(g *gin.Context, t *task, s *taskView, body *B) (any, error)) gin.HandlerFunc {
	return c.handle(func(g *gin.Context) (any, error) {
		t, s, err := c.load(g)
		body := new(B)
		if err == nil {
			err = c.read(g, body)
		}
		if err != nil {
			return nil, err
		}
		return do(g, t, s, body)
	})
}

// jsonBody refuses a body whose headers declare something other than JSON.
func (c *Console) jsonBody(g *gin.Context) {
	if err := transfer.Declared(g.Request); err != nil {
		c.fail(g, bodyFailure(err))
	}
}

// readBody reads a body to its end. What the request holds counts in share, which is to be released
// when the request has ended.
func (c *Console) readBody(g *gin.Context, limit int64) (body []byte, share *budget.Share, err error) {
	share = c.opts.Memory.Share()
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

// checked is a body of the people's API with rules of its own.
type checked interface{ check() error }

// read reads a body of the people's API into b.
func (c *Console) read(g *gin.Context, b any) error {
	raw, share, err := c.readBody(g, maxPeopleBody)
	if err != nil {
		return err
	}
	defer share.Release()
	return decode(raw, b)
}

// decode parses JSON as strictly as package protocol.
func decode(raw []byte, b any) error {
	var problems protocol.Problems
	if errors.As(protocol.Unmarshal(raw, b, json.RejectUnknownMembers(true)), &problems) {
		return invalid(problems...)
	}
	if c, ok := b.(checked); ok {
		return c.check()
	}
	return nil
}

// sent logs an answer whose client did not read it.
func (c *Console) sent(g *gin.Context, err error) {
	if err != nil {
		c.log.Debug().Err(err).Str("request_id", g.GetString(keyRequestID)).Msg("answer not sent")
	}
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
