package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"agentd/internal/base/budget"
	"agentd/internal/http/transfer"
	"agentd/protocol"
)

// stream answers with one candidate a line (NDJSON), in the order of completion. held is the request's part of
// share, in bytes. The error is that of a request whose answer has not begun.
func (s *Server) stream(c *gin.Context, inference Streaming, req *protocol.AgentRequest, share *budget.Share, held int) error {
	l := &lines{server: s, c: c, req: req, send: transfer.Parts(c, transfer.NDJSON), ready: make(chan line, req.Candidates()+1)}
	for i := range req.Inputs {
		l.first = append(l.first, len(l.sent))
		l.sent = append(l.sent, make([]bool, req.Inputs[i].NumOutputs)...)
	}
	err := within(c, s.opts.RequestTimeout, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var writing sync.WaitGroup
		writing.Go(func() { l.write(cancel) })
		defer writing.Wait()
		defer close(l.ready)
		var made atomic.Int64
		_, err := inference.DecideEach(budget.With(ctx, share), req, func() { l.ready <- line{} },
			func(input int, out *protocol.AgentOutput) {
				_, holds := protocol.ResponseBytes([]protocol.AgentOutput{*out})
				made.Add(int64(holds))
				l.ready <- line{input, out}
			})
		_ = share.Hold(int64(held) + made.Load()) // as in decide
		return err
	})
	var e *Error
	switch {
	case l.panicked != nil:
		panic(l.panicked)
	case !c.Writer.Written():
		return cmp.Or(err, errMissing)
	case l.err != nil, errors.As(err, &e) && e.Code == CodeClientGone:
		c.Set(keyStatus, statusClientGone)
		s.sent(c, cmp.Or(l.err, err))
	default:
		l.end(err)
	}
	return nil
}

var errMissing = errors.New("the inference gave no answer, or not all candidates")

type lines struct {
	server   *Server
	c        *gin.Context
	req      *protocol.AgentRequest
	send     func(part []byte) error
	ready    chan line // has space for all lines, so that a slow client does not block the engine
	first    []int     // index in the response of each input's first candidate
	sent     []bool    // by index in the response
	err      error     // of sending; nothing more is sent after it
	panicked any
}

// line is a candidate of an input; out is nil for the line that only begins the answer.
type line struct {
	input int
	out   *protocol.AgentOutput
}

// write sends the lines from ready until it is closed. If the client does not read, it calls cancel.
func (l *lines) write(cancel func()) {
	defer func() {
		if l.panicked = recover(); l.panicked != nil {
			cancel()
		}
	}()
	quiet := time.NewTicker(keepAlive)
	defer quiet.Stop()
	for l.err == nil {
		select {
		case next, more := <-l.ready:
			switch {
			case !more:
				return
			case next.out == nil:
				_, _ = l.Write(nil)
			default:
				l.candidate(next.input, next.out)
				quiet.Reset(keepAlive)
			}
		case <-quiet.C:
			if l.c.Writer.Written() {
				_, _ = l.Write([]byte(" ")) // which JSON ignores before a value
			}
		}
	}
	cancel()
}

// Write implements [io.Writer].
func (l *lines) Write(part []byte) (int, error) {
	if l.err == nil {
		l.err = l.send(part)
	}
	return len(part), l.err
}

// candidate sends a line. A candidate that violates the protocol is an error.
func (l *lines) candidate(input int, out *protocol.AgentOutput) {
	if err := protocol.ValidateCandidate(l.req, input, out.CandidateIndex, out); err != nil {
		_ = l.server.endedEarly(l.c, invalid(err)) // it logs the error
		return
	}
	l.sent[l.first[input]+out.CandidateIndex] = true
	_ = protocol.WriteLine(l, &protocol.StreamedCandidate{InputIndex: input, CandidateIndex: out.CandidateIndex, Candidate: out})
	if l.err == nil {
		l.server.metrics.outputs(l.c.GetString(keyClient), []protocol.AgentOutput{*out})
	}
}

// end sends the missing candidates with the error err, and the last line.
func (l *lines) end(err error) {
	var e *Error
	if slices.Contains(l.sent, false) {
		e = l.server.endedEarly(l.c, cmp.Or(err, errMissing))
	}
	for i := range l.req.Inputs {
		in := &l.req.Inputs[i]
		for k := range in.NumOutputs {
			if !l.sent[l.first[i]+k] {
				l.candidate(i, &protocol.AgentOutput{
					RequestID: l.req.RequestID, SourceID: in.ID, CandidateIndex: k, Status: protocol.StatusError, Memory: in.Memory,
					Error: &protocol.AgentError{Code: codeModelError, Message: e.detail(), Component: componentScheduler},
				})
			}
		}
	}
	_ = protocol.WriteLine(l, &protocol.StreamEnd{Candidates: len(l.sent)})
	l.server.sent(l.c, l.err)
}

// Code and component of the error of candidates whose request ended early.
const (
	codeModelError     = "model_error"
	componentScheduler = "scheduler"
)

// endedEarly logs why a stream is incomplete, and returns that error.
func (s *Server) endedEarly(c *gin.Context, err error) *Error {
	e := asError(err)
	level := zerolog.DebugLevel
	if e.Code == CodeInternal {
		level = zerolog.ErrorLevel
	}
	s.opts.Log.WithLevel(level).Err(err).Str("request_id", c.GetString(keyRequestID)).Msg("stream ended early")
	return e
}
