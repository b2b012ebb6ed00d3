package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"

	"agentd/protocol"
	"agentd/server/rollout"
)

func (s *Server) postPause(c *gin.Context) {
	s.weightsWork(c, func(ctx context.Context, w Weights) error {
		body, share, err := s.readBody(c, 0)
		defer share.Release()
		if err != nil {
			return err
		}
		var pause struct {
			Mode string `json:"mode"`
		}
		const form = `send {"mode": "wait"}, {"mode": "abort"} or {"mode": "keep"}`
		if err := protocol.Unmarshal(body, &pause, json.RejectUnknownMembers(true)); err != nil {
			return &Error{Code: CodeInvalid, Detail: fmt.Sprintf("the body is invalid: %v; %s", err, form)}
		}
		if !slices.Contains(rollout.Modes, pause.Mode) {
			return protocol.Problems{protocol.NewProblem(protocol.TypeLiteral, "must be wait, abort or keep; "+form, "mode")}
		}
		return w.Pause(ctx, pause.Mode)
	})
}

func (s *Server) postResume(c *gin.Context) {
	s.weightsWork(c, func(_ context.Context, w Weights) error {
		w.Resume()
		return nil
	})
}
