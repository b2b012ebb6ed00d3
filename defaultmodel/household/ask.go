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

// Ask asks a server for its decision. An output without a decision is no error of Ask.
func (e *Episode) Ask(ctx context.Context, s Server) (*protocol.AgentOutput, error) {
	return ask(ctx, s, e.Input())
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
	outs, err := s.Responses(ctx, &protocol.AgentRequest{RequestID: requestID, Inputs: []protocol.AgentInput{in}})
	if err != nil {
		return nil, err
	}
	if len(outs) != 1 {
		return nil, fmt.Errorf("the agent gave %d answers to one question", len(outs))
	}
	return &outs[0], nil
}
