package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"

	"agentd/internal/http/transfer"
	"agentd/server/openai"
	"agentd/server/rollout"
)

// Paths for trainers that are not in rollout.Routes.
const (
	pathGenerate   = "/inference/v1/generate"
	pathDetokenize = "/detokenize"
	pathLiveness   = "/liveness"
)

// routeRollout adds the routes for trainers of vLLM. Like /v1/weights, they need no option: without a directory of
// weights, changes are refused with a 403 that says so.
func (s *Server) routeRollout(r *gin.Engine) {
	mark := func(c *gin.Context) { c.Set(keyOpenAI, true) }
	r.POST(pathGenerate, mark, s.openAI(true, openai.Generate))
	r.POST(pathDetokenize, mark, s.openAI(false, func(_ context.Context, m openai.Model, _ string, body []byte, _ openai.Stream) ([]byte, error) {
		return openai.Detokenize(m, body)
	}))
	r.GET(pathLiveness, mark, s.getLiveness)
	for _, route := range rollout.Routes {
		handlers := []gin.HandlerFunc{mark, s.rollout(route)}
		if route.Changes {
			handlers = []gin.HandlerFunc{mark, s.mayChangeWeights, s.rollout(route)}
		}
		r.Handle(route.Method, route.Path, handlers...)
	}
	for path, reason := range rollout.Absent {
		r.POST(path, mark, s.mayChangeWeights, func(c *gin.Context) {
			s.fail(c, &Error{Code: CodeNotImplemented, Detail: reason})
		})
	}
}

// getLiveness answers as /health?live, 200 or 503.
func (s *Server) getLiveness(c *gin.Context) {
	if _, dead := s.health(); dead {
		s.fail(c, &Error{Code: CodeNotLoaded, Detail: "a step does not end, or every device failed; see /health"})
		return
	}
	s.sent(c, transfer.SendJSON(c, http.StatusOK, []byte(`{"status":"ok"}`)))
}

func (s *Server) rollout(route rollout.Route) gin.HandlerFunc {
	return func(c *gin.Context) {
		var answer any
		err := s.withWeights(c, func(ctx context.Context, engine Weights) (err error) {
			call := &rollout.Call{Engine: engine, Running: &s.running, Query: c.Request.URL.Query(), Body: []byte("{}")}
			if c.Request.ContentLength != 0 {
				body, share, err := s.readBody(c, looseCopies)
				defer share.Release()
				if err != nil {
					return err
				}
				call.Body = body
			}
			if answer, err = route.Answer(ctx, call); err == nil && route.Path == "/pause" {
				s.healthy.Store(engine.Resumed())
			}
			return err
		})
		text, plain := answer.(string)
		var body []byte
		if err == nil && !plain {
			body, err = json.Marshal(answer, json.Deterministic(true))
		}
		switch {
		case err != nil:
			s.fail(c, s.rolloutError(err, route))
		case plain:
			c.String(http.StatusOK, "%s", text)
		default:
			s.sent(c, transfer.SendJSON(c, http.StatusOK, body))
		}
	}
}

// rolloutError makes an error name the member of the body. Unusable files are a 400, like other invalid members.
func (s *Server) rolloutError(err error, route rollout.Route) error {
	if absent, ok := errors.AsType[*rollout.AbsentError](err); ok {
		return &Error{Code: CodeNotImplemented, Detail: absent.Reason, Param: absent.Param}
	}
	e := *asError(err)
	if e.Code == CodeInvalid || e.Code == CodeNotFound && route.Names == "lora_name" {
		if e.Param == "" {
			e.Param = route.Names
		}
		if e.Code == CodeInvalid {
			e.Code = CodeUnsupported
		}
	}
	return &e
}
