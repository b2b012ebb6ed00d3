package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"agentd/internal/base/budget"
	"agentd/internal/base/timing"
	"agentd/internal/http/transfer"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// getHealth answers 200 if the server takes work, or if vLLM's path paused it: TRL waits for that before it resumes.
// With the query parameter live it answers 200 unless the process must be restarted, for a supervisor.
func (s *Server) getHealth(c *gin.Context) {
	health, dead := s.health()
	if forMagma(c) { // whose clients know the status only
		health.Asking = 0
	}
	status := http.StatusServiceUnavailable
	if c.Request.URL.Query().Has(queryLive) && !dead {
		status = http.StatusOK
	}
	switch health.Status {
	case protocol.HealthReady:
		status = http.StatusOK
	case protocol.HealthLoading, protocol.HealthPaused:
		c.Header("Retry-After", strconv.Itoa(int(retryLoading.Seconds())))
		if over, ok := s.healthy.Load().(<-chan struct{}); ok && health.Status == protocol.HealthPaused {
			select {
			case <-over:
			default:
				status = http.StatusOK
			}
		}
	case protocol.HealthDraining:
		c.Header("Retry-After", strconv.Itoa(int(retryDraining.Seconds())))
	}
	s.sent(c, transfer.SendJSON(c, status, health.AppendJSON(nil)))
}

func (s *Server) getInfo(c *gin.Context) {
	s.sent(c, transfer.SendJSON(c, http.StatusOK, s.info[basePath(c)]))
}

func (s *Server) getOpenAPI(c *gin.Context) {
	s.sent(c, transfer.SendJSON(c, http.StatusOK, protocol.OpenAPI()))
}

// getMetrics answers with the metrics, with the write deadlines of other answers.
func (s *Server) getMetrics(c *gin.Context) {
	control := http.NewResponseController(c.Writer)
	_ = control.SetWriteDeadline(time.Now().Add(transfer.WriteTimeout))
	promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP(c.Writer, c.Request)
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{}) // the connection may be kept alive
}

// health returns the server's health. dead: the process must be restarted.
func (s *Server) health() (health protocol.AgentHealth, dead bool) {
	s.mu.Lock()
	state, inference, err := s.state, s.inference, s.hangs
	s.mu.Unlock()
	if a, ok := inference.(Asking); ok {
		health.Asking = a.Asking()
	}
	health.Status = state.String()
	if state != Draining {
		if f, ok := inference.(Failing); ok {
			err = f.Failure()
		}
		var hang *generation.StuckError
		switch {
		case errors.Is(err, generation.ErrUnreachable):
			health.Status = protocol.HealthLoading // another engine, or the same one later
		case errors.Is(err, generation.ErrPaused):
			health.Status = protocol.HealthPaused
		case errors.As(err, &hang):
			health.Status, dead = protocol.HealthStuck+": "+hang.Names(), true
		case err != nil:
			health.Status, dead = protocol.HealthFailed, true
		}
	}
	return health, dead
}

// postResponses answers an AgentRequest with one AgentOutput for every candidate, as a list or as NDJSON.
func (s *Server) postResponses(c *gin.Context) {
	inference, err := s.admit(c, true)
	if err != nil {
		s.fail(c, err)
		return
	}
	defer s.end()

	began := time.Now()
	body, share, err := s.readBody(c, 0)
	defer share.Release() // after the answer, which a slow client holds
	if err != nil {
		s.fail(c, err)
		return
	}
	req, held, err := protocol.DecodeWithin[protocol.AgentRequest](body, protocol.MaxDepth, share.Add)
	err = sayOtherAPI(err)
	if err == nil {
		if forMagma(c) {
			callsOverSay(req)
		}
		err = share.Hold(int64(held))
	}
	streaming, ok := inference.(Streaming)
	ok = ok && transfer.AcceptsLines(strings.Join(c.Request.Header.Values("Accept"), ","))
	var outs []protocol.AgentOutput
	switch {
	case err != nil:
	case ok:
		err = s.stream(c, streaming, req, share, held)
	default:
		outs, err = s.decide(c, inference, req, began, share, held)
	}
	size, _ := protocol.ResponseBytes(outs)
	switch {
	case err != nil:
		s.fail(c, err)
	case ok:
	case size < streamFrom:
		answer := protocol.AgentOutputs(outs).AppendJSON(make([]byte, 0, size))
		s.sent(c, transfer.SendJSON(c, http.StatusOK, answer))
	default:
		s.sent(c, transfer.StreamJSON(c, http.StatusOK, func(w io.Writer) error { return protocol.WriteResponse(w, outs) }))
	}
}

// decide makes and validates the candidates of the request, and adds their memory to share.
func (s *Server) decide(
	c *gin.Context, inference Inference, req *protocol.AgentRequest, began time.Time, share *budget.Share, held int,
) ([]protocol.AgentOutput, error) {
	var outs []protocol.AgentOutput
	var times *timing.Timing
	err := within(c, s.opts.RequestTimeout, func(ctx context.Context) (err error) {
		ctx, times = timing.With(ctx)
		outs, err = inference.Decide(budget.With(ctx, share), req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := protocol.ValidateResponse(req, outs); err != nil {
		// No client gets a malformed answer, not even one by a bug.
		return nil, invalid(err)
	}
	s.metrics.outputs(c.GetString(keyClient), outs)
	if !times.First.IsZero() { // W3C Server Timing
		millis := func(at time.Time) float64 { return float64(at.Sub(began)) / float64(time.Millisecond) }
		c.Header("Server-Timing", fmt.Sprintf("queue;dur=%.3f, ttft;dur=%.3f", millis(times.Started), millis(times.First)))
	}
	// The work's memory is free now. Candidates may refer to the request, and are sent whatever they take.
	_, holds := protocol.ResponseBytes(outs)
	_ = share.Hold(int64(held + holds))
	return outs, nil
}
