package server

import (
	"context"

	"agentd/protocol"
	"agentd/server/rollout"
)

// Inference answers a decoded request with one output for every candidate. Decide returns protocol.Problems for input
// that only the agent can validate, a *generation.QueueFullError or generation.ErrClosed if it takes no work, ctx's
// error when ctx ended, or an *Error. Anything else is an internal error.
type Inference interface {
	Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error)
}

// Failing is an Inference that can fail permanently, which /health reports so that a supervisor restarts the process.
type Failing interface {
	// Failure returns nil while requests can be decided. generation.ErrUnreachable is temporary.
	Failure() error
}

// Asking is an Inference that lets coaches choose. /health reports the number of decisions that wait for them.
type Asking interface {
	Asking() int
}

// Streaming is an Inference that delivers candidates before all of them are complete.
type Streaming interface {
	// DecideEach is Decide. It calls begun when the request is admitted and checked, and then each with every
	// complete candidate and its input's index, from any goroutine. Its error is that of the other candidates.
	DecideEach(
		ctx context.Context, req *protocol.AgentRequest, begun func(), each func(input int, out *protocol.AgentOutput),
	) ([]protocol.AgentOutput, error)
}

// Weights is an Inference whose weights can change. Its errors are *Error, protocol.Problems, or ctx's.
type Weights interface {
	rollout.Engine
	// Pause pauses in a mode of POST /v1/pause, and returns when nothing runs. It fails in a pause. Resumed returns a
	// channel that is closed when there is no pause.
	Pause(ctx context.Context, mode string) error
	Resumed() <-chan struct{}
}

// Coach has coaching sessions and answers their requests. A *coaching.Service is one; errors are as there.
type Coach interface {
	Configure(ctx context.Context, runID string, cfg *protocol.CoachingSessionConfig) error
	// ConfigureReachable is Configure, after every backend has answered a test call.
	ConfigureReachable(ctx context.Context, runID string, cfg *protocol.CoachingSessionConfig) error
	Coach(ctx context.Context, req *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error)
	CloseSession(ctx context.Context, runID string) error
}
