package serve

import (
	"cmp"
	"context"
	"errors"

	"agentd/inference/live"
	"agentd/protocol"
	"agentd/server"
	"agentd/server/ask"
	"agentd/server/openai"
)

var (
	_ server.Weights  = served{}
	_ openai.Provider = served{}
	_ server.Asking   = asking{}
)

// served is a live.Service as package server sees it: its errors have codes of HTTP.
type served struct{ *live.Service }

func (s served) SetModel(ctx context.Context, path string) error {
	return coded(s.Service.SetModel(ctx, path))
}

func (s served) SetAdapter(ctx context.Context, name, path string) error {
	return coded(s.Service.SetAdapter(ctx, name, path))
}

func (s served) RemoveAdapter(name string) error { return coded(s.Service.RemoveAdapter(name)) }

func (s served) Pause(ctx context.Context, mode string) error {
	return coded(s.Service.Pause(ctx, live.PauseMode(mode)))
}

func (s served) PauseAgain(ctx context.Context, mode string) error {
	return coded(s.Service.PauseAgain(ctx, live.PauseMode(mode)))
}

func (s served) OpenAI() (openai.Model, func()) { return s.Service.OpenAI() }

// asking is served whose coaches choose where the model is unsure.
type asking struct {
	served
	asker *ask.Asker
}

func (a asking) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	return a.asker.DecideEach(ctx, a.served, req, nil, nil)
}

func (a asking) DecideEach(
	ctx context.Context, req *protocol.AgentRequest, begun func(), each func(int, *protocol.AgentOutput),
) ([]protocol.AgentOutput, error) {
	return a.asker.DecideEach(ctx, a.served, req, begun, each)
}

func (a asking) Asking() int { return a.asker.Waiting() }

// codes of refused changes of the weights.
var codes = map[live.Reason]server.Code{
	live.NotAllowed:     server.CodeForbidden,
	live.UnknownAdapter: server.CodeNotFound,
	live.Busy:           server.CodeConflict,
	live.Unusable:       server.CodeInvalid,
	live.NoMemory:       server.CodeNoMemory,
}

func coded(err error) error {
	if refused, ok := errors.AsType[*live.Error](err); ok {
		return &server.Error{Code: cmp.Or(codes[refused.Reason], server.CodeInternal), Detail: refused.Detail}
	}
	return err
}
