package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"agentd/internal/connection"
	"agentd/internal/transfer"
	"agentd/protocol"

	"github.com/gin-gonic/gin"
)

// getHealth answers 200 only when the server takes work.
func (s *Server) getHealth(c *gin.Context) {
	state := s.State()
	status := http.StatusOK
	if state != Ready {
		status = http.StatusServiceUnavailable
		retry := retryLoading
		if state == Draining {
			retry = retryDraining
		}
		c.Header("Retry-After", strconv.Itoa(int(retry.Seconds())))
	}
	health := protocol.AgentHealth{Status: state.String()}
	if state == Ready && s.failure() != nil {
		status, health.Status = http.StatusServiceUnavailable, protocol.HealthFailed
	}
	s.writeJSON(c, status, health.AppendJSON(nil))
}

func (s *Server) getInfo(c *gin.Context) { s.writeJSON(c, http.StatusOK, s.info[basePath(c)]) }

func (s *Server) getOpenAPI(c *gin.Context) { s.writeJSON(c, http.StatusOK, protocol.OpenAPI()) }

// getMetrics answers with the metrics, for which a client has as long as for any other answer of that size.
func (s *Server) getMetrics(c *gin.Context) {
	control := http.NewResponseController(c.Writer)
	_ = control.SetWriteDeadline(time.Now().Add(transfer.WriteTimeout))
	s.metrics.handler().ServeHTTP(c.Writer, c.Request)
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{}) // the connection may be kept alive
}

// postResponses is the agent's inference: one AgentRequest in, one AgentOutput
// for every candidate out.
func (s *Server) postResponses(c *gin.Context) {
	decider, err := s.admit(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	defer s.end()

	answer, err := s.decide(c, decider)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.writeJSON(c, http.StatusOK, answer)
}

// decide takes one request from its bytes to the bytes of its answer. What it
// returns without an error has been checked against the request.
func (s *Server) decide(c *gin.Context, decider Decider) ([]byte, error) {
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
	defer settle()
	work := ctx
	if s.opts.RequestTimeout > 0 {
		var cancel context.CancelFunc
		work, cancel = context.WithTimeout(ctx, s.opts.RequestTimeout)
		defer cancel()
	}
	work, timing := withTiming(work, began)
	outs, err := decider.Decide(work, req)
	if cause := settle(); cause != nil {
		return nil, ended(cause)
	}
	if err != nil {
		return nil, err
	}
	if err := protocol.ValidateResponse(req, outs); err != nil {
		// Never a malformed answer, even for our own bugs.
		return nil, &Error{Code: CodeInternal, Err: fmt.Errorf("response is invalid: %w", err)}
	}
	s.metrics.outputs(outs)
	timing.write(c.Writer.Header())
	return protocol.EncodeResponse(outs), nil
}
