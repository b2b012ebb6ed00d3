package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"agentd/internal/connection"
	"agentd/protocol"

	"github.com/gin-gonic/gin"
)

func (c *Console) getHealth(g *gin.Context) {
	c.writeJSON(g, http.StatusOK, map[string]string{"status": protocol.HealthReady})
}

// postRequest takes an agent's task and answers once a person has answered it.
func (c *Console) postRequest(g *gin.Context) {
	body, share, err := c.readBody(g, maxTaskBody)
	if err != nil {
		c.fail(g, err)
		return
	}
	req, err := protocol.DecodeHumanCoachingRequest(body)
	share.Release() // the task is stored
	switch {
	case err != nil:
	case req.RequestID == "":
		err = invalid(protocol.NewProblem(protocol.TypeStringTooShort, "must not be empty", "request_id"))
	case len(req.RequestID) > maxRequestID:
		err = invalid(protocol.NewProblem(protocol.TypeTooLong, fmt.Sprintf("has %d bytes; at most %d are allowed", len(req.RequestID), maxRequestID), "request_id"))
	}
	if err != nil {
		c.fail(g, err)
		return
	}
	caller, settle := connection.Caller(g.Request, false)
	defer func() { _ = settle() }()
	ctx, cancel := context.WithCancelCause(caller)
	defer cancel(nil)
	defer context.AfterFunc(c.ended, func() { cancel(errStopping) })()
	response, err := c.tasks.submit(ctx, req)
	_ = settle() // err has the same reason
	if errors.Is(err, connection.ErrGone) || errors.Is(err, context.Canceled) {
		err = errClientGone
	}
	if err != nil {
		c.fail(g, err)
		return
	}
	c.writeBytes(g, http.StatusOK, response.AppendJSON(nil))
}

// deleteRequest withdraws an agent's task.
func (c *Console) deleteRequest(g *gin.Context) {
	// Gin's own parameter decodes + as a space in a path with escapes.
	id, err := url.PathUnescape(strings.TrimPrefix(g.Request.URL.EscapedPath(), pathRequests+"/"))
	if err == nil {
		err = c.tasks.withdraw(id)
	} else {
		err = errNoTask
	}
	if err != nil {
		c.fail(g, err)
		return
	}
	c.empty(g)
}
