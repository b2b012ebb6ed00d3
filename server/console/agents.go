package console

import (
	"context"
	"errors"
	"net/http"

	"agentd/protocol"

	"github.com/gin-gonic/gin"
)

func (c *Console) getHealth(g *gin.Context) {
	c.writeJSON(g, http.StatusOK, map[string]string{"status": protocol.HealthReady})
}

// postRequest takes an agent's task and answers when a person has.
func (c *Console) postRequest(g *gin.Context) {
	body, err := c.readBody(g, maxTaskBody)
	if err != nil {
		c.fail(g, err)
		return
	}
	req, err := protocol.DecodeHumanCoachingRequest(body)
	if err == nil && req.RequestID == "" {
		err = invalid(protocol.NewProblem(protocol.TypeStringTooShort, "must not be empty", "request_id"))
	}
	if err != nil {
		c.fail(g, err)
		return
	}
	// The request's context ends with the connection, the console's with it.
	ctx, cancel := context.WithCancelCause(g.Request.Context())
	defer cancel(nil)
	defer context.AfterFunc(c.ended, func() { cancel(errStopping) })()
	response, err := c.desk.submit(ctx, req)
	if errors.Is(err, context.Canceled) {
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
	if err := c.desk.withdraw(g.Param("id")); err != nil {
		c.fail(g, err)
		return
	}
	c.empty(g)
}
