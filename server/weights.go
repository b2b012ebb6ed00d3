package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"

	"agentd/internal/http/transfer"
	"agentd/protocol"
	"agentd/server/rollout"
)

type weightsChange struct {
	Model   *string `json:"model"`
	Adapter *struct {
		Name string `json:"name"`
		Path string `json:"path"`
	} `json:"adapter"`
}

// Paths of the weights.
const (
	pathWeights  = "/v1/weights"
	pathAdapters = pathWeights + "/adapters/"
	pathPause    = "/v1/pause"
	pathResume   = "/v1/resume"
)

// mayChangeWeights refuses clients whose token may not change the weights.
func (s *Server) mayChangeWeights(c *gin.Context) {
	switch {
	case len(s.auth) == 0:
		s.fail(c, &Error{Code: CodeForbidden, Detail: "weights change only for a bearer token with the right weights; start the server with a token file that has a line NAME+weights:TOKEN (docs/weights.md)"})
	case !c.GetBool(keyWeights):
		s.fail(c, &Error{Code: CodeForbidden, Detail: "this token may not change weights; write its line in the token file as NAME+weights:TOKEN"})
	}
}

func (s *Server) getWeights(c *gin.Context) {
	s.weightsWork(c, func(context.Context, Weights) error { return nil })
}

func (s *Server) putWeights(c *gin.Context) {
	s.weightsWork(c, func(ctx context.Context, w Weights) error {
		body, share, err := s.readBody(c, 0)
		defer share.Release()
		if err != nil {
			return err
		}
		change, err := decodeWeightsChange(body)
		if err != nil {
			return err
		}
		if change.Model != nil {
			return w.SetModel(ctx, *change.Model)
		}
		return w.SetAdapter(ctx, change.Adapter.Name, change.Adapter.Path)
	})
}

func (s *Server) deleteAdapter(c *gin.Context) {
	s.weightsWork(c, func(_ context.Context, w Weights) error { return w.RemoveAdapter(c.Param("name")) })
}

func decodeWeightsChange(body []byte) (*weightsChange, error) {
	const form = `send {"model": "FILE"} or {"adapter": {"name": "NAME", "path": "FILE"}}`
	change := new(weightsChange)
	if err := protocol.Unmarshal(body, change, json.RejectUnknownMembers(true)); err != nil {
		return nil, &Error{Code: CodeInvalid, Detail: fmt.Sprintf("the body is invalid: %v; %s", err, form)}
	}
	problem := func(what string, path ...any) (*weightsChange, error) {
		return nil, protocol.Problems{protocol.NewProblem(protocol.TypeValue, what, path...)}
	}
	switch a := change.Adapter; {
	case (change.Model == nil) == (a == nil):
		return nil, &Error{Code: CodeInvalid, Detail: "the body needs one of model and adapter; " + form}
	case change.Model != nil && *change.Model == "":
		return problem("is empty; name a GGUF file", "model")
	case a != nil && !rollout.AdapterName.MatchString(a.Name):
		return problem(rollout.AdapterForm, "adapter", "name")
	case a != nil && a.Path == "":
		return problem("is empty; name a GGUF file", "adapter", "path")
	}
	return change, nil
}

// weightsWork calls work and answers with the weights that serve after it.
func (s *Server) weightsWork(c *gin.Context, work func(context.Context, Weights) error) {
	var body []byte
	err := s.withWeights(c, func(ctx context.Context, w Weights) error {
		if err := work(ctx, w); err != nil {
			return err
		}
		info, err := w.Current(ctx)
		if err == nil {
			body, err = json.Marshal(info)
		}
		return err
	})
	if err != nil {
		s.fail(c, err)
		return
	}
	s.sent(c, transfer.SendJSON(c, http.StatusOK, body))
}

// withWeights calls work, during which the request is in flight.
func (s *Server) withWeights(c *gin.Context, work func(context.Context, Weights) error) error {
	inference, err := s.admit(c, false)
	if err != nil {
		return err
	}
	defer s.end()
	w, ok := inference.(Weights)
	if !ok {
		return &Error{Code: CodeNotFound}
	}
	return within(c, 0, func(ctx context.Context) error { return work(ctx, w) })
}
