package household

import (
	"context"
	"fmt"

	"agentd/protocol"
)

// Server answers requests of the protocol, like a client of package protocol/client.
type Server interface {
	Responses(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error)
}

// requestID is that of all requests. The memory identifies a conversation.
const requestID = "household"

// Ask asks a server for its decision. An output without a decision is not an error of Ask.
func (e *Episode) Ask(ctx context.Context, s Server) (*protocol.AgentOutput, error) {
	return ask(ctx, s, e.Input())
}

// AskFor asks for n candidates with other extra keys than Ask's.
func (e *Episode) AskFor(ctx context.Context, s Server, extraKeys protocol.Raw, n int) ([]protocol.AgentOutput, error) {
	in := e.Input()
	in.ExtraKeys, in.NumOutputs = extraKeys, n
	return askAll(ctx, s, in)
}

// Correct asks a server for its memory after the right decision. It uses the protocol's
// corrections.
func (e *Episode) Correct(ctx context.Context, s Server) (protocol.Raw, error) {
	in := e.Input()
	right := protocol.ReplaceDecision{Decision: e.Expected()}
	in.ExtraKeys = protocol.AppendMember(in.ExtraKeys, "coaching", right.AppendJSON(nil))
	out, err := ask(ctx, s, in)
	if err != nil {
		return nil, err
	}
	if out.Error != nil {
		return nil, fmt.Errorf("the agent takes no correction: %s: %s", out.Error.Code, out.Error.Message)
	}
	return out.Memory, nil
}

func ask(ctx context.Context, s Server, in protocol.AgentInput) (*protocol.AgentOutput, error) {
	in.NumOutputs = 1
	outs, err := askAll(ctx, s, in)
	if err != nil {
		return nil, err
	}
	return &outs[0], nil
}

func askAll(ctx context.Context, s Server, in protocol.AgentInput) ([]protocol.AgentOutput, error) {
	outs, err := s.Responses(ctx, &protocol.AgentRequest{RequestID: requestID, Inputs: []protocol.AgentInput{in}})
	if err == nil && len(outs) != in.NumOutputs {
		err = fmt.Errorf("the agent gave %d answers where %d were asked for", len(outs), in.NumOutputs)
	}
	return outs, err
}
