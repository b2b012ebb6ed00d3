package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"agentd/internal/base/clip"
	"agentd/internal/http/connection"
	"agentd/protocol"
	"agentd/protocol/client"
)

const (
	pathHealth   = "/health"
	pathRequests = "/v1/coaching/requests"
)

// getHealth answers agents, and with ?tasks operators: it counts the open tasks, and which people have claimed.
func (c *Console) getHealth(g *gin.Context) (any, error) {
	health := map[string]any{"status": protocol.HealthReady}
	if _, counts := g.GetQuery("tasks"); !counts {
		return health, nil
	}
	list, err := c.tasks.list(false)
	oldest, claimed := c.tasks.now(), 0
	for _, t := range list {
		if oldest = list[0].ReceivedAt; t.State == stateClaimed {
			claimed++
		}
	}
	health["open"], health["claimed"], health["oldest_seconds"] = len(list), claimed, int(c.tasks.now().Sub(oldest).Seconds())
	return health, err
}

// postRequest stores an agent's task, and answers when a person has answered it.
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

// candidate is a decision of the agent server. Valid: it passes the check of answers.
type candidate struct {
	Status   string       `json:"status"`
	Decision protocol.Raw `json:"decision"`
	Error    *string      `json:"error"`
	Valid    bool         `json:"valid"`
	Problems []finding    `json:"problems"`
}

// postCandidates asks the agent server for decisions at a point.
func (c *Console) postCandidates(g *gin.Context, _ *task, s *taskView, body *candidatesBody) (any, error) {
	point := s.point(body.Point)
	switch {
	case c.opts.Agent == nil:
		return nil, fail(http.StatusConflict, "this console is configured without an agent server")
	case point == nil:
		return nil, problem(protocol.TypeValue, "the task has no such point", "point")
	case point.Input == nil:
		return nil, problem(protocol.TypeValue, "the task came without the input at this point, so nobody can be asked about it", "point")
	}
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	default:
		return nil, fail(http.StatusServiceUnavailable, "others are asking for candidates; try again in a moment")
	}
	outs, err := c.ask(g.Request.Context(), *point.Input, body.N)
	if err != nil {
		return nil, err
	}
	list := make([]candidate, len(outs))
	for i := range outs {
		list[i] = s.candidate(body.Point, &outs[i])
	}
	return map[string]any{"candidates": list}, nil
}

// ask gets up to n candidates for an input.
func (c *Console) ask(ctx context.Context, input protocol.AgentInput, n int) ([]protocol.AgentOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	defer context.AfterFunc(c.ended, cancel)()
	outs, err := c.opts.Agent.Responses(ctx, &protocol.AgentRequest{
		RequestID: uuid.NewString(),
		Inputs:    questions(input, n),
	})
	var refused *client.Error
	switch {
	case err == nil:
		return outs, nil
	case c.ended.Err() != nil:
		return nil, errStopping
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fail(http.StatusGatewayTimeout, "the agent server did not answer within %s", askTimeout)
	case errors.Is(err, context.Canceled):
		return nil, errClientGone
	case errors.As(err, &refused):
		return nil, fail(http.StatusBadGateway, "the agent server refused: %s", clip.Text(refused.Error(), maxReason))
	}
	c.opts.Log.Warn().Err(err).Msg("request for candidates failed")
	return nil, fail(http.StatusBadGateway, "the agent server is unreachable; the console's log has the reason")
}

// questions returns the inputs for n candidates: the most probable options of an input with options. Any other greedy
// input gives the same candidate each time, so it is asked for one. The other candidates are sampled, so that a person
// has a choice.
func questions(input protocol.AgentInput, n int) []protocol.AgentInput {
	input.NumOutputs = n
	for _, key := range []string{"ask", "candidates", "coaching", "continue"} {
		input.ExtraKeys = protocol.DeleteMember(input.ExtraKeys, key)
	}
	if options, _ := protocol.Get(input.ExtraKeys, "options"); options != nil {
		input.NumOutputs = min(n, len(slices.Collect(protocol.Elements(options))))
		return []protocol.AgentInput{input}
	}
	if mode, _ := protocol.Get(input.ExtraKeys, "inference_mode"); mode.Kind() != 't' || n == 1 {
		return []protocol.AgentInput{input}
	}
	drawn := input
	drawn.ID = input.ID ^ 1 // any other id
	drawn.ExtraKeys = protocol.SetMember(input.ExtraKeys, "inference_mode", protocol.Raw("false"))
	input.NumOutputs, drawn.NumOutputs = 1, n-1
	return []protocol.AgentInput{input, drawn}
}

func (s *taskView) candidate(pointID string, out *protocol.AgentOutput) candidate {
	found := candidate{Status: out.Status, Problems: []finding{}}
	if out.Output == nil {
		found.Error = &out.Error.Message
		return found
	}
	found.Decision = out.Output.AppendJSON(nil)
	found.Problems = findings(s.point(pointID).Check(out.Output))
	found.Valid = len(found.Problems) == 0
	return found
}
