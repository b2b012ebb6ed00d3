package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"agentd/internal/connection"
	"agentd/internal/transfer"
	"agentd/server/openai"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"
)

// Paths of OpenAI's API, with Options.Completions.
const (
	pathCompletions = "/v1/completions"
	pathChat        = "/v1/chat/completions"
	pathTokenize    = "/tokenize"
	pathModels      = "/v1/models"
)

// routeCompletions adds the paths of OpenAI's API.
func (s *Server) routeCompletions(r *gin.Engine) {
	mark := func(c *gin.Context) { c.Set(keyOpenAI, true) }
	r.GET(pathModels, mark, s.openAI(func(_ context.Context, _ *gin.Context, m openai.Model, _ []byte) ([]byte, error) {
		return openai.Models(m)
	}))
	r.POST(pathTokenize, mark, s.jsonBody, s.openAI(func(_ context.Context, _ *gin.Context, m openai.Model, body []byte) ([]byte, error) {
		return openai.Tokenize(m, body)
	}))
	r.POST(pathCompletions, mark, s.jsonBody, s.openAI(func(ctx context.Context, c *gin.Context, m openai.Model, body []byte) ([]byte, error) {
		return openai.Complete(ctx, m, c.GetString(keyRequestID), body)
	}))
	r.POST(pathChat, mark, s.jsonBody, s.openAI(func(ctx context.Context, c *gin.Context, m openai.Model, body []byte) ([]byte, error) {
		quiet := time.NewTicker(keepAlive)
		defer quiet.Stop()
		return openai.Chat(ctx, m, c.GetString(keyRequestID), body, openai.Stream{Send: func(part []byte) error { return sendPart(c, part) }, Quiet: quiet.C})
	}))
}

// openAI makes a handler of a function that answers a body, or has sent events.
func (s *Server) openAI(answer func(context.Context, *gin.Context, openai.Model, []byte) ([]byte, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		inference, err := s.admit(c)
		if err != nil {
			s.fail(c, err)
			return
		}
		defer s.end()
		provider, ok := inference.(openai.Provider)
		if !ok {
			s.fail(c, &Error{Code: CodeNotFound})
			return
		}
		body, share, err := s.readBody(c)
		defer share.Release()
		if err == nil {
			err = share.Add(int64(len(body)) * looseCopies)
		}
		if err != nil {
			s.fail(c, err)
			return
		}
		model, unload := provider.OpenAI() // with the whole body, so that a slow client keeps no weights
		defer unload()
		ctx, settle := connection.Caller(c.Request, false)
		defer func() { _ = settle() }()
		if s.opts.RequestTimeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, s.opts.RequestTimeout)
			defer cancel()
		}
		text, err := answer(ctx, c, model, body)
		if cause := settle(); cause != nil {
			err = ended(cause)
		} else if errors.Is(err, context.DeadlineExceeded) {
			err = &Error{Code: CodeTimeout}
		}
		switch {
		case err != nil && c.Writer.Written():
			s.failStream(c, err)
		case err != nil:
			s.fail(c, err)
		case text != nil:
			s.writeJSON(c, http.StatusOK, text)
		}
	}
}

// failStream ends a stream with the reason in err.
func (s *Server) failStream(c *gin.Context, err error) {
	e := asError(err)
	entry := codes[e.Code]
	level := zerolog.DebugLevel
	if e.Code == CodeInternal {
		level = zerolog.ErrorLevel
	}
	s.log.WithLevel(level).Err(err).Str("request_id", c.GetString(keyRequestID)).Msg("stream ended early")
	body := openai.AppendError(entry.status, cmp.Or(e.Detail, entry.detail), e.Param)
	_ = sendPart(c, fmt.Appendf(nil, "data: %s\n\ndata: [DONE]\n\n", body))
}

// sendPart sends a part of a stream to a client that reads, the headers before the first one.
func sendPart(c *gin.Context, part []byte) error {
	control := http.NewResponseController(c.Writer)
	if !c.Writer.Written() {
		c.Header("Content-Type", "text/event-stream")
	}
	_ = control.SetWriteDeadline(time.Now().Add(transfer.WriteTimeout))
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // the connection may be kept alive
	if _, err := c.Writer.Write(part); err != nil {
		return err
	}
	return control.Flush()
}
