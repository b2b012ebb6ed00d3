package console

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"agentd/internal/connection"
	"agentd/protocol"

	"github.com/gin-gonic/gin"
)

func (c *Console) getHealth(*gin.Context) (any, error) {
	return map[string]string{"status": protocol.HealthReady}, nil
}

// postRequest takes an agent's task and answers once a person has answered it.
func (c *Console) postRequest(g *gin.Context) (any, error) {
	body, share, err := c.readBody(g, maxTaskBody)
	if err != nil {
		return nil, err
	}
	req, err := protocol.DecodeHumanCoachingRequest(body)
	share.Release() // the task is stored
	switch {
	case err != nil:
		return nil, err
	case req.RequestID == "":
		return nil, problem(protocol.TypeStringTooShort, "must not be empty", "request_id")
	case len(req.RequestID) > maxRequestID:
		return nil, problem(protocol.TypeTooLong, fmt.Sprintf("has %d bytes; at most %d are allowed", len(req.RequestID), maxRequestID), "request_id")
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
	return response, err
}

// deleteRequest withdraws an agent's task.
func (c *Console) deleteRequest(g *gin.Context) (any, error) {
	// Gin's own parameter decodes + as a space in a path with escapes.
	id, err := url.PathUnescape(strings.TrimPrefix(g.Request.URL.EscapedPath(), pathRequests+"/"))
	if err != nil {
		return nil, errNoTask
	}
	return nil, c.tasks.withdraw(id)
}
