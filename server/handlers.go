package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"agentd/internal/connection"
	"agentd/internal/timing"
	"agentd/internal/transfer"
	"agentd/protocol"
	"agentd/scheduler/generation"

	"github.com/gin-gonic/gin"
)

// getHealth answers 200 only if the server takes work. With the query parameter live it also answers
// 200 unless only another process can go on, for a supervisor that restarts it.
func (s *Server) getHealth(c *gin.Context) {
	health := protocol.AgentHealth{Status: s.State().String()}
	dead := false
	if health.Status == protocol.HealthReady {
		var hang *generation.StuckError
		switch err := s.failure(); {
		case errors.Is(err, generation.ErrUnreachable):
			health.Status = protocol.HealthLoading // another engine, or the same one later
		case errors.As(err, &hang):
			health.Status, dead = protocol.HealthStuck+": "+hang.Names(), true
		case err != nil:
			health.Status, dead = protocol.HealthFailed, true
		}
	}
	status := http.StatusServiceUnavailable
	if c.Request.URL.Query().Has(queryLive) && !dead {
		status = http.StatusOK
	}
	switch health.Status {
	case protocol.HealthReady:
		status = http.StatusOK
	case protocol.HealthLoading:
		c.Header("Retry-After", strconv.Itoa(int(retryLoading.Seconds())))
	case protocol.HealthDraining:
		c.Header("Retry-After", strconv.Itoa(int(retryDraining.Seconds())))
	}
	s.writeJSON(c, status, health.AppendJSON(nil))
}

func (s *Server) getInfo(c *gin.Context) { s.writeJSON(c, http.StatusOK, s.info[basePath(c)]) }

func (s *Server) getOpenAPI(c *gin.Context) { s.writeJSON(c, http.StatusOK, protocol.OpenAPI()) }

// getMetrics answers with the metrics, within the time limit of other answers.
func (s *Server) getMetrics(c *gin.Context) {
	control := http.NewResponseController(c.Writer)
	_ = control.SetWriteDeadline(time.Now().Add(transfer.WriteTimeout))
	s.metrics.handler().ServeHTTP(c.Writer, c.Request)
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{}) // the connection may be kept alive
}

// postResponses answers an AgentRequest with one AgentOutput for every candidate.
func (s *Server) postResponses(c *gin.Context) {
	inference, err := s.admit(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	defer s.end()

	answer, err := s.decide(c, inference)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.writeJSON(c, http.StatusOK, answer)
}

// decide makes the bytes of the answer from those of the request. It validates every answer
// against the request.
func (s *Server) decide(c *gin.Context, inference Inference) ([]byte, error) {
	began := time.Now()
	body, release, err := s.readBody(c)
	if err != nil {
		return nil, err
	}
	defer release()
	req, err := protocol.DecodeAgentRequest(body)
	if err != nil {
		return nil, err
	}
	if forMagma(c) {
		callsOverSay(req)
	}
	ctx, settle := connection.Caller(c.Request, false)
	defer func() { _ = settle() }()
	work := ctx
	if s.opts.RequestTimeout > 0 {
		var cancel context.CancelFunc
		work, cancel = context.WithTimeout(ctx, s.opts.RequestTimeout)
		defer cancel()
	}
	work, times := timing.With(work, began)
	outs, err := inference.Decide(work, req)
	if cause := settle(); cause != nil {
		return nil, ended(cause)
	}
	if err != nil {
		return nil, err
	}
	if err := protocol.ValidateResponse(req, outs); err != nil {
		// No client gets a malformed answer, not even one by a bug.
		return nil, &Error{Code: CodeInternal, Err: fmt.Errorf("response is invalid: %w", err)}
	}
	s.metrics.outputs(c.GetString(keyClient), outs)
	times.Write(c.Writer.Header())
	return protocol.EncodeResponse(outs), nil
}
