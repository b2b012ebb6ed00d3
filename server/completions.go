package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"agentd/internal/base/budget"
	"agentd/internal/http/transfer"
	"agentd/server/decide"
	"agentd/server/openai"
)

// Paths of OpenAI's API, with Options.Completions.
const (
	pathCompletions = "/v1/completions"
	pathChat        = "/v1/chat/completions"
	pathTokenize    = "/tokenize"
	pathModels      = "/v1/models"
	pathDecisions   = "/v1/decisions"
	pathSystemOne   = "/v1/systemone" // vLLM's
)

// openAICall returns the answer to a body, or sends events to s and returns nil.
type openAICall func(ctx context.Context, m openai.Model, id string, body []byte, s openai.Stream) ([]byte, error)

func (s *Server) routeCompletions(r *gin.Engine) {
	mark := func(c *gin.Context) { c.Set(keyOpenAI, true) }
	r.GET(pathModels, mark, s.openAI(false, func(_ context.Context, m openai.Model, _ string, _ []byte, _ openai.Stream) ([]byte, error) {
		return openai.Models(m)
	}))
	r.POST(pathTokenize, mark, s.openAI(false, func(ctx context.Context, m openai.Model, _ string, body []byte, _ openai.Stream) ([]byte, error) {
		return openai.Tokenize(ctx, m, body)
	}))
	r.POST(pathCompletions, mark, s.openAI(true, openai.Complete))
	r.POST(pathChat, mark, s.openAI(true, openai.Chat))
	r.POST(pathDecisions, mark, s.openAI(true, deciding(func(ctx context.Context, m decide.Model, _ string, body []byte) ([]byte, error) {
		return decide.Decisions(ctx, m, body)
	})))
	r.POST(pathSystemOne, mark, s.openAI(true, deciding(decide.SystemOne)))
}

// deciding returns a call that answers questions; it refuses them if the model has no probabilities of answers.
func deciding(answer func(ctx context.Context, m decide.Model, id string, body []byte) ([]byte, error)) openAICall {
	return func(ctx context.Context, m openai.Model, id string, body []byte, _ openai.Stream) ([]byte, error) {
		decides, ok := m.(decide.Model)
		if !ok {
			return nil, &Error{Code: CodeNotFound}
		}
		return answer(ctx, decides, id, body)
	}
}

func (s *Server) openAI(computes bool, answer openAICall) gin.HandlerFunc {
	return func(c *gin.Context) {
		inference, err := s.admit(c, computes)
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
		body, share, err := s.readBody(c, looseCopies)
		defer share.Release()
		if err != nil {
			s.fail(c, err)
			return
		}
		model, unload := provider.OpenAI() // with the whole body, so that a slow client keeps no weights
		defer unload()
		quiet := time.NewTicker(keepAlive)
		defer quiet.Stop()
		stream := openai.Stream{Send: transfer.Parts(c, "text/event-stream"), Quiet: quiet.C}
		var text []byte
		err = within(c, s.opts.RequestTimeout, func(ctx context.Context) (err error) {
			text, err = answer(s.running.With(budget.With(ctx, share)), model, c.GetString(keyRequestID), body, stream)
			return err
		})
		if errors.Is(err, context.DeadlineExceeded) {
			err = &Error{Code: CodeTimeout}
		}
		switch {
		case err != nil && c.Writer.Written():
			e := s.endedEarly(c, err)
			body := openai.AppendError(e.Code.status, e.detail(), e.Param)
			_ = stream.Send(fmt.Appendf(nil, "data: %s\n\ndata: [DONE]\n\n", body))
		case err != nil:
			s.fail(c, err)
		case text != nil:
			s.sent(c, transfer.SendJSON(c, http.StatusOK, text))
		}
	}
}
